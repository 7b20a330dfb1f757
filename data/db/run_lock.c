/* run_lock.c: takes, reads and writes run.lock. Its lines are the holder ("" for nobody), the
 * machine's start, the numbers of run_lock.h, and for a holder when it began, which file it has
 * locked, whether the file system may keep the lock to itself, where its number and its beginning
 * count (its namespaces of processes and of time, and the machine's start), and its word.
 *
 * A lock is on a file, not on its name. So the holder checks that the name still leads to that
 * file: when it takes the lock, and again before each transaction. */
#include "data/db/run_lock.h"

#include "data/file/file.h"
#include "data/base/machine.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
    TEXT = 512, // the most bytes of such a file
    LOOK_US = 5000, TAKE_LOOKS = 200, // one second
    RIVAL_US = 300000, // longer than a process needs from its look at the text to its own
    HIDDEN_LOOKS = 200,
    STILL_LOOKS = 3000, // 15 seconds: a rival gives up after waiting 2 s per device
    TRIES = 20
};

static void text_read(int fd, char *text, size_t size)
{
    ssize_t n = fd < 0 ? 0 : pread(fd, text, size - 1, 0);

    text[n > 0 ? n : 0] = '\0';
}

/* The line of the holder: "" for nobody. */
static void holder_line(int fd, char *text, size_t size)
{
    text_read(fd, text, size);
    text[strcspn(text, "\n")] = '\0';
}

static void boot_read(char boot[RUN_LOCK_BOOT])
{
    int now = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    text_read(now, boot, RUN_LOCK_BOOT);
    file_close(now);
}

static void numbers_read(struct run_lock *l, int fd)
{
    char text[TEXT], boot[RUN_LOCK_BOOT] = "";

    boot_read(l->boot);
    text_read(fd, text, sizeof text);
    const char *line = strchr(text, '\n');
    l->known = line &&
               sscanf(line, "\nboot %36[0-9a-f-]\ncommits %" SCNu64 " begun %" SCNu64
                      " taken %" SCNu64, boot, &l->commits, &l->begun, &l->taken) == 4 &&
               *boot && !strcmp(boot, l->boot);
    if (!l->known)
        l->commits = l->begun = l->taken = 0;
    l->flushed = l->commits;
}

static const char *const sights[] = { "shared", "layer", "apart" }; // as the file has them

static enum lock_sight sight_of(int fd)
{
    struct statfs fs;

    if (fd < 0 || fstatfs(fd, &fs))
        return LOCK_SHARED;
    return fs.f_type == FUSE_SUPER_MAGIC        ? LOCK_APART
           : fs.f_type == OVERLAYFS_SUPER_MAGIC ? LOCK_LAYER
                                                : LOCK_SHARED;
}

/* The namespaces of processes and of time, and the machine's start, by which a process's number and
 * its beginning count. A namespace that cannot be read is 0, a start "". */
struct counting { uint64_t processes, times; char boot[RUN_LOCK_BOOT]; };

static uint64_t namespace(const char *path)
{
    struct stat st;

    return stat(path, &st) ? 0 : st.st_ino;
}

static struct counting counting_here(void)
{
    struct counting c = { namespace("/proc/self/ns/pid"), namespace("/proc/self/ns/time"), "" };

    boot_read(c.boot);
    return c;
}

/* Reads what a holder wrote from its line "start". 0: an older siTrain wrote it. */
static int counting_read(struct counting *there, const char *line)
{
    *there = (struct counting){ 0 };
    return sscanf(line, "\nstart %*u file %*[^\n,], %*[a-z] in %" SCNu64 " %" SCNu64
                  " %36[0-9a-f-]", &there->processes, &there->times, there->boot) >= 2;
}

static int other_boot(const struct counting *there, const struct counting *here)
{
    return strlen(there->boot) == RUN_LOCK_BOOT - 1 && *here->boot &&
           strcmp(there->boot, here->boot);
}

/* Does process `pid` of the text live? 1, 0, or UNKNOWN of another container's processes, and of
 * those that /proc does not show. */
enum { UNKNOWN = -1 };

static int lives(const char *line, long pid, uint64_t start, const char *host)
{
    struct counting there, here = counting_here();
    char            name[64];

    if (!counting_read(&there, line)) {
        machine_host(name, sizeof name); // an older siTrain wrote it
        return pid != (long)getpid() && !strcmp(host, name) && machine_begun(pid) == start;
    }
    if (other_boot(&there, &here))
        return 0; // it ended with the machine, or is another machine's
    if (!there.processes || there.processes != here.processes)
        return UNKNOWN;
    if (pid == (long)getpid() || (kill((pid_t)pid, 0) && errno == ESRCH))
        return 0;
    uint64_t begun = machine_begun(pid);
    snprintf(name, sizeof name, "/proc/%ld/stat", pid);
    if (begun && there.times == here.times)
        return begun == start;
    return begun || access(name, R_OK) ? UNKNOWN : 0; // 0: it ended, and nobody waited for it
}

/* Whether the file of that name may be the locked one. A file that an overlay copied up from a
 * lower layer has another inode there than in the upper one, and the same time of birth. */
static int may_be_file(const char *path, const char *locked, enum lock_sight sight)
{
    char here[FILE_IDENTITY];

    if (file_is(path, locked) || !file_has_births(path, locked))
        return 1;
    file_identity(path, here);
    return sight == LOCK_LAYER &&
           !strcmp(here + strcspn(here, " "), locked + strcspn(locked, " "));
}

/* Does a living process of this machine have this very file, though its lock is not seen? One that
 * ends has no lock any more, and is still there for a moment. Where it cannot be told whether the
 * file is the same, or a copy, it counts as the same. By FUSE, a process of which nothing can be
 * known counts as living. By an overlay it does not: a container that is started again has the same
 * overlay, which shows all its locks. */
static int is_hidden(const struct run_lock *l, int fd)
{
    char       text[TEXT], host[64] = "", file[FILE_IDENTITY], how[8] = "";
    uint64_t   start = 0;
    long       pid = 0;
    enum lock_sight sight = sight_of(fd);

    text_read(fd, text, sizeof text);
    const char *line = strstr(text, "\nstart ");
    if (sscanf(text, "process %ld on %63s", &pid, host) != 2)
        return 0;
    if (!line ||
        sscanf(line, "\nstart %" SCNu64 " file %47[^\n,], %7[a-z]", &start, file, how) != 3)
        return sight == LOCK_APART; // it may show an older size of the file for a moment
    if (!strcmp(how, "apart"))
        sight = LOCK_APART;
    else if (!strcmp(how, "layer") && sight == LOCK_SHARED)
        sight = LOCK_LAYER;
    if (sight == LOCK_SHARED || !may_be_file(l->path, file, sight))
        return 0;
    int alive = lives(line, pid, start, host);
    return alive == UNKNOWN ? sight == LOCK_APART : alive;
}

/* -EBUSY if the lock that this process has does not keep another one from the run. */
static int hidden_check(const struct run_lock *l, int fd, struct err *err)
{
    char who[128];

    for (int i = 0; fd >= 0 && is_hidden(l, fd); i++) {
        if (i < HIDDEN_LOOKS) {
            usleep(LOOK_US);
            continue;
        }
        holder_line(fd, who, sizeof who);
        return err_set(err, -EBUSY, "%s: the run is in use by %s, whose lock is not seen by this "
                       "path, since a FUSE file system or an overlay keeps locks to itself: wait "
                       "for that process to end or stop it; if it has ended (it may be another "
                       "container's), or if this is a copy of its run, remove %s",
                       l->db_path, who, l->path);
    }
    return 0;
}

int run_lock_note(struct run_lock *l)
{
    const struct counting here = counting_here();
    char host[64], text[TEXT] = "\n";

    machine_host(host, sizeof host);
    if (l->writes)
        snprintf(text, sizeof text, "process %ld on %s\n", (long)getpid(), host);
    int n = (int)strlen(text);
    if (l->known)
        n += snprintf(text + n, sizeof text - (size_t)n, "boot %s\ncommits %" PRIu64 " begun %"
                      PRIu64 " taken %" PRIu64 "\n", l->boot, l->flushed, l->begun, l->taken);
    if (l->writes && *l->file)
        n += snprintf(text + n, sizeof text - (size_t)n, "start %" PRIu64 " file %s, %s in %" PRIu64
                      " %" PRIu64 " %s\n", l->start, l->file, sights[l->sight],
                      here.processes, here.times, here.boot);
    if (l->writes)
        n += snprintf(text + n, sizeof text - (size_t)n, "word %s\n", l->word);
    errno = 0; // overwriting takes no room on a full disk
    int rc = pwrite(l->fd, text, (size_t)n, 0) != n || ftruncate(l->fd, n);
    return rc ? (errno ? -errno : -EIO) : 0;
}

/* Whom the file names as its holder. Its word decides: a process of another container may have the
 * same number and the same beginning. By FUSE the file is opened anew, which forgets what this path
 * has of it in memory. */
enum named { NAMES_NOBODY, NAMES_US, NAMES_ANOTHER };

static enum named named(const struct run_lock *l)
{
    char text[TEXT], word[RUN_LOCK_WORD] = "";
    long pid;
    int  again = l->sight == LOCK_APART ? open(l->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;

    text_read(again < 0 ? l->fd : again, text, sizeof text);
    file_close(again);
    if (sscanf(text, "process %ld", &pid) != 1)
        return NAMES_NOBODY;
    const char *line = strstr(text, "\nword ");
    if (line)
        sscanf(line, "\nword %16[0-9a-f]", word);
    return strcmp(word, l->word) ? NAMES_ANOTHER : NAMES_US;
}

static int rival_say(const struct run_lock *l, struct err *err)
{
    char who[128];

    holder_line(l->fd, who, sizeof who);
    return err_set(err, -EBUSY, "%s: the run is in use by %s, which took %s by another path, whose "
                   "locks this one does not show: wait for that process to end or stop it",
                   l->db_path, *who ? who : "another process", l->path);
}

/* Where others do not see the lock, two processes may have looked at the text before either wrote
 * its own. The one that wrote last has it. */
static int rival_check(struct run_lock *l, struct err *err)
{
    if (l->sight == LOCK_SHARED)
        return 0;
    fsync(l->fd); // or else another path may show it later
    usleep(RIVAL_US);
    if (named(l) == NAMES_US)
        return 0;
    l->writes = 0; // the text is the other one's
    return rival_say(l, err);
}

/* Reads who holds it; "" if unknown. A process that only reads writes nothing there, and a killed
 * one has not erased its text. */
static void holder_read(int fd, char *text, size_t size)
{
    char host[64] = "", here[64];
    long pid;

    holder_line(fd, text, size);
    machine_host(here, sizeof here);
    if (sscanf(text, "process %ld on %63s", &pid, host) == 2 && !strcmp(host, here) &&
        kill((pid_t)pid, 0) && errno == ESRCH)
        *text = '\0';
}

static int refuse(const struct run_lock *l, int fd, struct err *err)
{
    char holder[128] = "";

    switch (errno) {
    case EWOULDBLOCK:
        holder_read(fd, holder, sizeof holder);
        return err_set(err, -EBUSY, "%s: the run is in use by %s; wait for it to end or stop it",
                       l->db_path, *holder ? holder : "another process");
    case ENOLCK:
    case ENOSYS:
    case EOPNOTSUPP:
        return err_set(err, -ENOLCK,
                       "lock %s: %s: the file system has no locks, so a second process could not "
                       "be kept from this run; put it on a local one", l->path, strerror(errno));
    default:
        return err_set(err, -errno, "lock %s: %s", l->path, strerror(errno));
    }
}

/* Whether this is exactly the text that run_lock_note writes. */
static int is_form(const char *text)
{
    int line = 0, rest = 0;

    if (*text && *text != '\n' &&
        (sscanf(text, "process %*d on %*63[^\n ]%n", &line) < 0 || !line))
        return 0;
    text += line;
    if (!*text || !strcmp(text, "\n"))
        return 1;
    sscanf(text, "\nboot %*36[0-9a-f-]\ncommits %*u begun %*u taken %*u%n", &rest);
    text += rest;
    line = 0;
    sscanf(text, "\nstart %*u file %*u %*d.%*u, %*6[a-z]%n", &line);
    text += line;
    int where = 0;
    sscanf(text, " in %*u %*u%n %*36[0-9a-f-]%n", &where, &where);
    text += where;
    text += *text == ' '; // behind it the machine's start may be unknown
    int word = 0; // older versions wrote none
    sscanf(text, "\nword %*16[0-9a-f]%n", &word);
    text += word;
    return (rest || line || word) && !strcmp(text, "\n");
}

/* Refuses somebody else's file. Next to a run's database, a small file of this name is the run's,
 * whatever a power cut left in it. Elsewhere it must be empty, or have the form that run_lock_note
 * writes. */
static int ours_check(const struct run_lock *l, int fd, struct err *err)
{
    char        text[TEXT] = "";
    struct stat st;

    text_read(fd, text, sizeof text);
    if (fstat(fd, &st))
        return err_set(err, -errno, "%s cannot be read: %s", l->path, strerror(errno));
    if (st.st_size < TEXT && (access(l->db_path, F_OK) == 0 || is_form(text)))
        return 0;
    return err_misuse(err, "%s is no lock file of siTrain: move it elsewhere", l->path);
}

/* True for a file system of this machine, which it may export by NFS. There flock shows the locks
 * of this machine's processes alone, and fcntl those of clients, too. On a client both are one
 * lock. */
static int is_local(int fd)
{
    struct statfs fs;

    return !fstatfs(fd, &fs) && (fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC ||
                                 fs.f_type == BTRFS_SUPER_MAGIC || fs.f_type == F2FS_SUPER_MAGIC);
}

/* Tries to lock: 0, or errno is EWOULDBLOCK or another. On a local file system the fcntl lock is
 * taken as well, because clients of NFS hold theirs there. */
static int try_lock(int fd, int shared)
{
    struct flock whole = { .l_type = shared ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET };

    if (flock(fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB))
        return -1;
    if (!is_local(fd))
        return 0;
    if (!fcntl(fd, F_OFD_SETLK, &whole) || (errno != EAGAIN && errno != EACCES))
        return 0;
    flock(fd, LOCK_UN);
    errno = EWOULDBLOCK;
    return -1;
}

/* Tries to lock. 0: locked, and the name leads to it. 1: it was removed or replaced: try again. A
 * process that only checks the lock holds it for a moment, so this waits, `looks` times. */
static int take_once(const struct run_lock *l, int looks, int *fd, struct err *err)
{
    int rc = file_open_own(l->path, O_CREAT, fd, err);

    if (rc)
        return rc;
    while (try_lock(*fd, 0)) {
        if (errno != EWOULDBLOCK || --looks <= 0) {
            rc = refuse(l, *fd, err);
            break;
        }
        if (!file_names(l->path, *fd)) {
            rc = 1;
            break;
        }
        usleep(LOOK_US);
    }
    int is = file_names(l->path, *fd);
    if (!rc && is < 0)
        rc = err_set(err, is, "%s cannot be read: %s", l->path, strerror(-is));
    rc = rc ? rc : !is ? 1 : ours_check(l, *fd, err);
    rc = rc ? rc : hidden_check(l, *fd, err);
    if (rc) {
        close(*fd);
        *fd = -1;
    }
    return rc;
}

static int take(const struct run_lock *l, int looks, int *fd, struct err *err)
{
    int rc = 1;

    for (int i = 0; i < TRIES && rc > 0; i++)
        rc = take_once(l, looks, fd, err);
    return rc <= 0 ? rc
                   : err_set(err, -EBUSY, "%s is removed or replaced again and again", l->path);
}

static int note(struct run_lock *l, struct err *err)
{
    l->start = machine_begun((long)getpid());
    l->sight = sight_of(l->fd);
    file_identity(l->path, l->file);
    int rc = run_lock_note(l);

    return rc ? err_set(err, rc, "write %s: %s", l->path, strerror(-rc)) : 0;
}

int run_lock_take(struct run_lock *l, struct err *err)
{
    // a run.lock that another user made could not be written by the owner of run.db
    if (faccessat(AT_FDCWD, l->db_path, W_OK, AT_EACCESS) && errno != ENOENT)
        return err_set(err, -errno, "%s may not be written: %s", l->db_path, strerror(errno));
    int rc = take(l, TAKE_LOOKS, &l->fd, err);

    if (rc)
        return rc;
    l->writes = 1;
    numbers_read(l, l->fd);
    rc = machine_hex(l->word, RUN_LOCK_WORD - 1, err);
    rc = rc ? rc : note(l, err);
    return rc ? rc : rival_check(l, err);
}

int run_lock_still(const struct run_lock *l, int *fd, struct err *err)
{
    int is = file_names(l->path, l->fd);

    *fd = -1;
    if (is < 0)
        return file_unseen(l->path, is, err);
    if (is)
        return named(l) == NAMES_ANOTHER ? rival_say(l, err) : 0;
    int rc = take(l, STILL_LOOKS, fd, err);
    return rc && err
               ? err_set(err, rc, "%s; run.lock was removed or replaced while this process "
                         "held it, so the process ends without another commit", err->text)
               : rc;
}

int run_lock_renew(struct run_lock *l, int fd, struct err *err)
{
    close(l->fd);
    l->fd = fd;
    return note(l, err);
}

/* Opens it for reading. -1 if that fails. *taken: a process writes. */
static int open_shared(const struct run_lock *l, int *taken)
{
    uint64_t size;
    int      fd;

    if (file_open_read(l->path, &fd, &size, NULL))
        fd = -1;
    *taken = fd >= 0 && try_lock(fd, 1) && errno == EWOULDBLOCK;
    return fd;
}

int run_lock_read(struct run_lock *l, struct err *err)
{
    int taken, fd = l->fd < 0 ? open_shared(l, &taken) : -1, rc = 0;

    if (l->fd >= 0)
        return 0;
    if (taken || hidden_check(l, fd, err)) {
        rc = taken ? refuse(l, fd, err) : -EBUSY;
        close(fd);
    } else {
        l->fd = fd;
        numbers_read(l, fd);
    }
    return rc;
}

static int is_born(const char *identity)
{
    const char *born = strchr(identity, ' ');

    return born && strcmp(born, " 0.000000000");
}

/* Whether the holder is on another machine, or has the file by another file system: a server of NFS
 * and its client. Then the log's index (run.db-shm) is not memory that both share. A reader would
 * take it for damaged and make it anew, and so lose the holder's commits. On the server a lock that
 * flock shows is of this machine, whatever boot id its container has (systemd-nspawn draws one). */
static int is_far(const struct run_lock *l, int fd)
{
    struct counting there, here = counting_here();
    char            text[TEXT], file[FILE_IDENTITY] = "", by_path[FILE_IDENTITY];

    // if flock gives the lock, a client's fcntl lock refused before; closing fd gives it back
    if (is_local(fd) && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK)
        return 0;
    text_read(fd, text, sizeof text);
    const char *line = strstr(text, "\nstart ");
    if (!line || !counting_read(&there, line) ||
        sscanf(line, "\nstart %*u file %47[^\n,]", file) != 1)
        return 0;
    file_identity(l->path, by_path);
    return other_boot(&there, &here) || is_born(file) != is_born(by_path);
}

static int far_check(const struct run_lock *l, int fd, struct err *err)
{
    char who[128];

    if (!is_far(l, fd))
        return 1;
    holder_read(fd, who, sizeof who);
    return err_set(err, -EBUSY, "%s: the run is in use by %s, on another machine or by another "
                   "file system: read it there, or wait for that process to end; if that machine "
                   "is gone, remove %s", l->db_path, *who ? who : "another process", l->path);
}

int run_lock_is_taken(struct run_lock *l, struct err *err)
{
    int taken, fd = open_shared(l, &taken);
    int rc = taken ? far_check(l, fd, err) : hidden_check(l, fd, err);

    numbers_read(l, fd);
    file_close(fd);
    return rc;
}

/* Whether the process of the text is one of this machine, and stands still. */
static int is_stopped(const char *text)
{
    char        host[64], here[64];
    const char *line = strstr(text, "\nstart ");
    uint64_t    start;
    long        pid;

    machine_host(here, sizeof here);
    return line && sscanf(text, "process %ld on %63s", &pid, host) == 2 && !strcmp(host, here) &&
           sscanf(line, "\nstart %" SCNu64, &start) == 1 && machine_is_stopped(pid, start);
}

enum run_lock_holder run_lock_holder(const struct run_lock *l, char *who, size_t size)
{
    char text[TEXT];
    int  taken, fd = open_shared(l, &taken);

    text_read(fd, text, sizeof text);
    file_close(fd);
    int stopped = taken && is_stopped(text);
    snprintf(who, size, "%.*s", (int)strcspn(text, "\n"), text);
    return stopped ? HOLDER_STOPPED : taken ? HOLDER_WRITES : HOLDER_NONE;
}

int run_lock_has_numbers(const char *path)
{
    char text[TEXT];
    int  fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    text_read(fd, text, sizeof text);
    file_close(fd);
    return strstr(text, "\ncommits ") != NULL;
}

void run_lock_release(struct run_lock *l)
{
    if (l->writes) {
        l->writes = 0;
        if (named(l) != NAMES_ANOTHER)
            run_lock_note(l); // if this fails, a dead holder stays there, which is noticed
    }
    file_close(l->fd);
    l->fd = -1;
}
