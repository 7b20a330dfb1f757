/* delay.c: a library for LD_PRELOAD that stands between the program (SQLite and MPI within it) and
 * the calls that make, name, lock and write files. It delays them by seed, kills or holds the
 * process at one of them, and lets locks or exchanges fail as some file systems do. The
 * environment says what it does; a variable that is not there does nothing:
 *
 *     SHIM_SEED=N           before some calls it sleeps, by this seed
 *     SHIM_US=N             ... for at most so many microseconds (3000)
 *     SHIM_BUDGET_US=N      ... and for so many in all (300000)
 *     SHIM_AT=CALL:TEXT:N:kill      the process is killed before its Nth call of CALL (`name`: any
 *     SHIM_AT=CALL:TEXT:N:PATH      that changes names; `any`) whose path contains TEXT; or PATH is
 *                           made and the process waits until it is gone; PATH.over then: not again
 *     SHIM_AT=CALL:TEXT:N:fail  the Nth call fails with EIO; fail=EINTR: with another error;
 *                           TEXT$: whose path ends in TEXT; CALL may also be pread, write,
 *                           fdatasync, fstat or readdir, which are held, too, or look (below) or
 *                           opendir
 *     SHIM_TOLD=FILE        each call that SHIM_AT fails adds a line to it: the call and its path
 *     SHIM_FAIL=CALL=ERRNO[@TEXT],...       calls fail: flock, fcntl (locks alone), readdir,
 *                           link, exchange (renameat2 with RENAME_EXCHANGE), look (stat, access,
 *                           and the like); TEXT: where the path contains it
 *     SHIM_HEX=DIGITS       every 16 random bytes begin with these
 *
 * The calls that it knows are in the table at its end. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { WORDS = 128, FAILS = 8, ONE_IN = 4 };

static struct fail { char call[16], text[WORDS]; int error; } fails[FAILS];
static struct {
    int      delays, at, kills, error, changes_names, any;
    uint64_t state;
    long     most_us, budget_us, left;
    char     call[16], text[WORDS], path[PATH_MAX];
    const char *told;
    int      n_fails;
    size_t   hex;
    unsigned char random[16];
} shim;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

/* ---- what the environment says ---- */

static long number(const char *name, long otherwise)
{
    const char *text = getenv(name);

    return text ? atol(text) : otherwise;
}

static int error_of(const char *word)
{
    static const struct { const char *name; int error; } errors[] = {
        { "ENOLCK", ENOLCK }, { "ENOSYS", ENOSYS }, { "EOPNOTSUPP", EOPNOTSUPP },
        { "EINVAL", EINVAL }, { "EIO", EIO }, { "ENOMEM", ENOMEM },
        { "EINTR", EINTR }, { "EACCES", EACCES }, { "ESTALE", ESTALE }, { "ENOSPC", ENOSPC },
    };

    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (!strcmp(errors[i].name, word))
            return errors[i].error;
    fprintf(stderr, "shim: no error is called %s\n", word);
    _exit(99);
}

static void read_fails(const char *text)
{
    while (text && *text && shim.n_fails < FAILS) {
        struct fail *f = &fails[shim.n_fails++];
        char         error[16] = "";

        if (sscanf(text, "%15[a-z]=%15[A-Z]@%127[^,]", f->call, error, f->text) < 2)
            _exit(99);
        f->error = error_of(error);
        text = strchr(text, ',');
        text += text != NULL;
    }
}

static void read_at(const char *text)
{
    char path[PATH_MAX] = "";

    if (!text)
        return;
    if (sscanf(text, "%15[a-z0-9]:%127[^:]:%ld:%4095s", shim.call, shim.text, &shim.left,
               path) != 4)
        _exit(99);
    shim.at = 1;
    shim.kills = !strcmp(path, "kill");
    shim.error = !strcmp(path, "fail") ? EIO : !strncmp(path, "fail=", 5) ? error_of(path + 5) : 0;
    shim.changes_names = !strcmp(shim.call, "name");
    shim.any = !strcmp(shim.call, "any");
    snprintf(shim.path, sizeof shim.path, "%s", path);
}

__attribute__((constructor)) static void begin(void)
{
    const char *seed = getenv("SHIM_SEED"), *hex = getenv("SHIM_HEX");

    shim.delays = seed != NULL;
    shim.state = seed ? strtoull(seed, NULL, 10) * 0x9e3779b97f4a7c15u + 1 : 1;
    shim.most_us = number("SHIM_US", 3000);
    shim.budget_us = number("SHIM_BUDGET_US", 300000);
    shim.told = getenv("SHIM_TOLD");
    read_fails(getenv("SHIM_FAIL"));
    read_at(getenv("SHIM_AT"));
    for (; hex && hex[0] && hex[1] && shim.hex < sizeof shim.random; hex += 2)
        sscanf(hex, "%2hhx", &shim.random[shim.hex++]);
}

/* ---- what happens before a call ---- */

static void sleep_us(long us)
{
    struct timespec t = { us / 1000000, us % 1000000 * 1000 };

    syscall(SYS_nanosleep, &t, NULL);
}

/* How long to sleep here: at most calls not at all, at some up to the most. */
static long drawn_us(void)
{
    long us = 0;

    pthread_mutex_lock(&guard);
    shim.state = shim.state * 6364136223846793005u + 1442695040888963407u;
    uint64_t draw = shim.state >> 33;
    if (draw % ONE_IN == 0 && shim.budget_us > 0) {
        us = (long)(draw / ONE_IN % (uint64_t)(shim.most_us + 1));
        shim.budget_us -= us;
    }
    pthread_mutex_unlock(&guard);
    return us;
}

/* Held at the call that was named, until whoever waits for this removes the file. */
static void hold(void)
{
    char over[PATH_MAX + 8];

    snprintf(over, sizeof over, "%s.over", shim.path);
    if (syscall(SYS_access, over, F_OK) == 0)
        return;
    for (int i = 0; i < 2; i++) {
        int fd = (int)syscall(SYS_openat, AT_FDCWD, i ? over : shim.path, O_CREAT | O_WRONLY, 0600);

        if (fd >= 0)
            syscall(SYS_close, fd);
        while (!i && syscall(SYS_access, shim.path, F_OK) == 0)
            sleep_us(1000);
    }
}

static int is_named(const char *path)
{
    size_t end = strlen(shim.text) - 1, n = strlen(path);

    if (shim.text[end] != '$')
        return strstr(path, shim.text) != NULL;
    return n >= end && !strncmp(path + n - end, shim.text, end);
}

static int is_at(const char *call, int names, const char *path)
{
    int at = 0;

    if (!shim.at || !path ||
        !(shim.any || (shim.changes_names ? names : !strcmp(call, shim.call))) || !is_named(path))
        return 0;
    pthread_mutex_lock(&guard);
    at = shim.left > 0 && --shim.left == 0;
    pthread_mutex_unlock(&guard);
    return at;
}

/* The call that was named fails: errno is set, and whoever counts the calls is told. */
static int fails_now(const char *path)
{
    char line[PATH_MAX + 32];
    int  n = snprintf(line, sizeof line, "%s %s\n", shim.call, path), fd = -1;

    if (shim.told)
        fd = (int)syscall(SYS_openat, AT_FDCWD, shim.told, O_CREAT | O_WRONLY | O_APPEND, 0600);
    if (shim.told && (fd < 0 || syscall(SYS_write, fd, line, n) != n))
        _exit(99);
    if (fd >= 0)
        syscall(SYS_close, fd);
    errno = shim.error;
    return 1;
}

/* Returns whether the call is to fail; errno is set then. */
static int before(const char *call, int names, const char *path)
{
    int  error = errno;
    long us = shim.delays ? drawn_us() : 0;

    if (us)
        sleep_us(us);
    if (is_at(call, names, path)) {
        if (shim.kills)
            kill(getpid(), SIGKILL);
        if (shim.error)
            return fails_now(path);
        hold();
    }
    errno = error;
    return 0;
}

static const char *name_of(int fd, char name[PATH_MAX])
{
    char    link[64];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, name, PATH_MAX - 1);
    name[n > 0 ? n : 0] = '\0';
    return name;
}

static int before_fd(const char *call, int fd)
{
    char name[PATH_MAX];

    return before(call, 0, shim.at ? name_of(fd, name) : NULL);
}

/* Whether it is to fail: errno is set. */
static int fails_at(const char *call, const char *path, int fd)
{
    char name[PATH_MAX];

    for (int i = 0; i < shim.n_fails; i++) {
        if (strcmp(fails[i].call, call))
            continue;
        if (!*fails[i].text || strstr(path ? path : name_of(fd, name), fails[i].text)) {
            errno = fails[i].error;
            return 1;
        }
    }
    return 0;
}

/* Whether this call is to fail; it may be held first. It is neither delayed nor one of `any`. */
static int fd_fails_at(const char *call, int fd)
{
    char name[PATH_MAX];

    if (!shim.at || strcmp(shim.call, call) || !is_at(call, 0, name_of(fd, name)))
        return 0;
    if (shim.error)
        return fails_now(name);
    hold();
    return 0;
}

/* ---- the calls ---- */

#define NEXT(name) \
    static __typeof__(&name) real; \
    if (!real) \
        real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define MODE(flags) \
    va_list ap; \
    va_start(ap, flags); \
    mode_t mode = (flags) & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0; \
    va_end(ap)

#define OPEN(name) \
    int name(const char *path, int flags, ...) \
    { \
        NEXT(name); \
        MODE(flags); \
        if (before("open", 0, path)) \
            return -1; \
        return real(path, flags, mode); \
    }
#define OPENAT(name) \
    int name(int dir, const char *path, int flags, ...) \
    { \
        NEXT(name); \
        MODE(flags); \
        if (before("open", 0, path)) \
            return -1; \
        return real(dir, path, flags, mode); \
    }
#define FCNTL(name) \
    int name(int fd, int what, ...) \
    { \
        NEXT(name); \
        va_list ap; \
        va_start(ap, what); \
        void *arg = va_arg(ap, void *); \
        va_end(ap); \
        int locks = what == F_SETLK || what == F_SETLKW || what == F_OFD_SETLK || \
                    what == F_OFD_SETLKW; \
        if (locks && before_fd("fcntl", fd)) \
            return -1; \
        return locks && fails_at("fcntl", NULL, fd) ? -1 : real(fd, what, arg); \
    }
#define PWRITE(name) \
    ssize_t name(int fd, const void *buf, size_t n, off_t off) \
    { \
        NEXT(name); \
        return before_fd("pwrite", fd) ? -1 : real(fd, buf, n, off); \
    }
#define PREAD(name) \
    ssize_t name(int fd, void *buf, size_t n, off_t off) \
    { \
        NEXT(name); \
        return fd_fails_at("pread", fd) ? -1 : real(fd, buf, n, off); \
    }
#define TRUNCATE(name) \
    int name(int fd, off_t size) \
    { \
        NEXT(name); \
        return before_fd("ftruncate", fd) ? -1 : real(fd, size); \
    }

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
FCNTL(fcntl)
FCNTL(fcntl64)
PREAD(pread)
PREAD(pread64)
PWRITE(pwrite)
PWRITE(pwrite64)
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

int flock(int fd, int how)
{
    NEXT(flock);
    return before_fd("flock", fd) || fails_at("flock", NULL, fd) ? -1 : real(fd, how);
}

struct dirent *readdir(DIR *d)
{
    NEXT(readdir);
    return fd_fails_at("readdir", dirfd(d)) || fails_at("readdir", NULL, dirfd(d)) ? NULL : real(d);
}

static int path_fails(const char *call, const char *path)
{
    if (!strcmp(shim.call, call) && is_at(call, 0, path))
        return fails_now(path);
    return fails_at(call, path, -1);
}

DIR *opendir(const char *path)
{
    NEXT(opendir);
    return path_fails("opendir", path) ? NULL : real(path);
}

#define LOOK(name, shape, with) \
    int name shape \
    { \
        NEXT(name); \
        return path_fails("look", path) ? -1 : real with; \
    }

LOOK(stat, (const char *path, struct stat *st), (path, st))
LOOK(lstat, (const char *path, struct stat *st), (path, st))
LOOK(access, (const char *path, int how), (path, how))
LOOK(faccessat, (int dir, const char *path, int how, int flags), (dir, path, how, flags))
LOOK(statx, (int dir, const char *path, int flags, unsigned mask, struct statx *x),
     (dir, path, flags, mask, x))

char *realpath(const char *path, char *out)
{
    NEXT(realpath);
    return path_fails("look", path) ? NULL : real(path, out);
}

ssize_t write(int fd, const void *buf, size_t n)
{
    NEXT(write);
    return fd_fails_at("write", fd) ? -1 : real(fd, buf, n);
}

int fdatasync(int fd)
{
    NEXT(fdatasync);
    return fd_fails_at("fdatasync", fd) ? -1 : real(fd);
}

int fstat(int fd, struct stat *st)
{
    NEXT(fstat);
    return fd_fails_at("fstat", fd) ? -1 : real(fd, st);
}

int fsync(int fd)
{
    NEXT(fsync);
    return before_fd("fsync", fd) ? -1 : real(fd);
}

int rename(const char *from, const char *to)
{
    NEXT(rename);
    return before("rename", 1, to) ? -1 : real(from, to);
}

int renameat(int a, const char *from, int b, const char *to)
{
    NEXT(renameat);
    return before("rename", 1, to) ? -1 : real(a, from, b, to);
}

int renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
    NEXT(renameat2);
    if (before("rename", 1, to) || ((flags & RENAME_EXCHANGE) && fails_at("exchange", to, -1)))
        return -1;
    return real(a, from, b, to, flags);
}

int link(const char *from, const char *to)
{
    NEXT(link);
    return before("link", 1, to) || fails_at("link", to, -1) ? -1 : real(from, to);
}

int linkat(int a, const char *from, int b, const char *to, int flags)
{
    NEXT(linkat);
    return before("link", 1, to) ? -1 : real(a, from, b, to, flags);
}

int unlink(const char *path)
{
    NEXT(unlink);
    return before("unlink", 1, path) ? -1 : real(path);
}

int unlinkat(int dir, const char *path, int flags)
{
    NEXT(unlinkat);
    return before("unlink", 1, path) ? -1 : real(dir, path, flags);
}

int remove(const char *path)
{
    NEXT(remove);
    return before("unlink", 1, path) ? -1 : real(path);
}

int rmdir(const char *path)
{
    NEXT(rmdir);
    return before("rmdir", 1, path) ? -1 : real(path);
}

int mkdir(const char *path, mode_t mode)
{
    NEXT(mkdir);
    return before("mkdir", 1, path) ? -1 : real(path, mode);
}

int mkdirat(int dir, const char *path, mode_t mode)
{
    NEXT(mkdirat);
    return before("mkdir", 1, path) ? -1 : real(dir, path, mode);
}

ssize_t getrandom(void *out, size_t n, unsigned flags)
{
    NEXT(getrandom);
    ssize_t got = real(out, n, flags);
    if (got == (ssize_t)sizeof shim.random)
        memcpy(out, shim.random, shim.hex);
    return got;
}
