/* machine.c: asks the kernel about this machine and this process: memory, limits, processors, host,
 * command line, random numbers. */
#include "data/base/machine.h"

#include "data/base/text_made.h"

#include <assert.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

uint64_t rss_now(void)
{
    FILE              *f = fopen("/proc/self/statm", "re");
    unsigned long long pages = 0;

    if (f && fscanf(f, "%*u %llu", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t rss_peak(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (uint64_t)u.ru_maxrss * 1024;
}

uint64_t machine_room(char *option)
{
    static const struct { int limit; char option; const char *mapped; } limits[] = {
        { RLIMIT_AS, 'v', "VmSize" }, { RLIMIT_DATA, 'd', "VmData" } };
    uint64_t room = UINT64_MAX;

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rlimit l;
        char          text[64];

        if (getrlimit((__rlimit_resource_t)limits[i].limit, &l) || l.rlim_cur == RLIM_INFINITY)
            continue;
        machine_field(text, sizeof text, "/proc/self/status", limits[i].mapped);
        uint64_t mapped = strtoull(text, NULL, 10) * 1024;
        uint64_t left = l.rlim_cur > mapped ? l.rlim_cur - mapped : 0;
        if (left < room) {
            room = left;
            *option = limits[i].option;
        }
    }
    return room;
}

const char *machine_field(char *buf, size_t size, const char *path, const char *key)
{
    FILE  *f = fopen(path, "re");
    char  *line = NULL;
    size_t room = 0, len = strlen(key);

    buf[0] = '\0';
    while (f && !buf[0] && getline(&line, &room, f) > 0)
        if (!strncmp(line, key, len)) {
            const char *p = line + len + strspn(line + len, " \t:");
            size_t      n = strcspn(p, "\n");

            while (n && p[n - 1] == ' ')
                n--;
            snprintf(buf, size, "%.*s", (int)n, p);
        }
    free(line);
    if (f)
        fclose(f);
    return buf;
}

const char *machine_cpu(char *buf, size_t size)
{
    if (!*machine_field(buf, size, "/proc/cpuinfo", "model name"))
        snprintf(buf, size, "unknown");
    return buf;
}

const char *machine_host(char *buf, size_t size)
{
    struct utsname u = { 0 };

    uname(&u);
    snprintf(buf, size, "%s", *u.nodename ? u.nodename : "localhost");
    for (char *c = buf; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == '/' || *c == 0x7f)
            *c = '_';
    return buf;
}

void machine_here(struct machine *m)
{
    struct utsname u;

    uname(&u);
    machine_host(m->host, sizeof m->host);
    snprintf(m->system, sizeof m->system, "%s %s %s", u.sysname, u.release, u.machine);
    machine_cpu(m->cpu, sizeof m->cpu);
    m->cpus_online = (int)sysconf(_SC_NPROCESSORS_ONLN);
    m->cpus = machine_cpus();
    m->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void put_word(FILE *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_=+,./:@%";

    if (*word && word[strspn(word, plain)] == '\0') {
        fputs(word, out);
        return;
    }
    putc('\'', out);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", out);
        else
            putc(*word, out);
    putc('\'', out);
}

const char *machine_python_path(char out[MACHINE_PYTHON_PATH], const char *path,
                                const char *instead)
{
    size_t n = strlen(path), name;
    int    plain = 1;

    while (n > 1 && path[n - 1] == '/')
        n--;
    for (name = n; name && path[name - 1] != '/'; name--) {
    }
    for (size_t i = 0; path[i]; i++) // an interactive shell expands !, also in double quotes
        plain &= !strchr("'\"\\$`!", path[i]) && (unsigned char)path[i] >= ' ' && path[i] != 0x7f;
    if (!plain || n > 90 || (n - name <= 2 && strspn(path + name, ".") >= n - name))
        path = instead, n = strlen(path);
    snprintf(out, MACHINE_PYTHON_PATH, "%.*s", (int)n, path);
    return out;
}

const char *machine_word(char *buf, size_t size, const char *word)
{
    FILE *out = fmemopen(buf, size, "w");

    *buf = '\0';
    if (out) {
        put_word(out, word);
        fclose(out);
    }
    return buf;
}

char *machine_command(void)
{
    char  *text = NULL, *word = NULL;
    size_t size = 0, room = 0;
    FILE  *in = fopen("/proc/self/cmdline", "re");
    FILE  *out = in ? open_memstream(&text, &size) : NULL;

    for (int n = 0; out && getdelim(&word, &room, '\0', in) > 0; n++) {
        if (n)
            putc(' ', out);
        put_word(out, word);
    }
    free(word);
    if (in)
        fclose(in);
    return text_made(out, &text, 0);
}

/* When a process began, in clock ticks since boot; 0: it is not seen here. */
static uint64_t begun_as(long pid, char *state)
{
    char     path[64], text[1024] = "";
    uint64_t ticks = 0;

    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    int     fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *rest = strrchr(text, ')'); // its name may hold anything
    if (!rest || sscanf(rest, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
                        "%*d %*d %*d %" SCNu64, state, &ticks) != 2)
        return 0;
    return ticks;
}

uint64_t machine_begun(long pid)
{
    char     state = 0;
    uint64_t begun = begun_as(pid, &state);

    return begun && !strchr("ZXx", state) ? begun : 0;
}

int machine_is_stopped(long pid, uint64_t begun)
{
    char state = 0;

    return begun && begun_as(pid, &state) == begun && state == 'T';
}

double machine_age(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9 -
           (double)machine_begun((long)getpid()) / (double)sysconf(_SC_CLK_TCK);
}

int machine_hex(char *out, size_t digits, struct err *err)
{
    unsigned char raw[16];
    size_t        n = digits / 2;

    assert(digits % 2 == 0 && n <= sizeof raw);
    if (getrandom(raw, n, 0) != (ssize_t)n)
        return err_set(err, -EIO, "getrandom: %s", strerror(errno));
    for (size_t i = 0; i < n; i++)
        snprintf(out + 2 * i, 3, "%02x", raw[i]);
    return 0;
}

/* The kernel refuses a set that is too small for the machine: a cpu_set_t has 1,024 processors. */
int machine_cpus(void)
{
    enum { MOST = 1 << 20 }; // processors
    int    n = 0, refused = 1;
    size_t room = CPU_SETSIZE;

    for (; refused && room <= MOST; room *= 2) {
        size_t     bytes = CPU_ALLOC_SIZE(room);
        cpu_set_t *set = CPU_ALLOC(room);

        refused = !set || (sched_getaffinity(0, bytes, set) && errno == EINVAL);
        if (!refused)
            n = CPU_COUNT_S(bytes, set);
        CPU_FREE(set);
    }
    return n > 0 ? n : 1;
}

uint64_t threads_here(uint64_t asked) { return asked ? asked : (uint64_t)machine_cpus(); }
