/* machine.c: asks the kernel. */
#include "data/base/machine.h"

#include <assert.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/utsname.h>
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

void machine_here(struct machine *m)
{
    struct utsname u;
    cpu_set_t      may;

    uname(&u);
    snprintf(m->host, sizeof m->host, "%s", u.nodename);
    snprintf(m->system, sizeof m->system, "%s %s %s", u.sysname, u.release, u.machine);
    machine_cpu(m->cpu, sizeof m->cpu);
    m->cpus_online = (int)sysconf(_SC_NPROCESSORS_ONLN);
    m->cpus = sched_getaffinity(0, sizeof may, &may) ? m->cpus_online
                                                     : CPU_COUNT(&may);
    m->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* One word, in single quotes where a shell would take it for more than it is. */
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
    FILE  *in = fopen("/proc/self/cmdline", "re"), *out;
    char  *text = NULL, *word = NULL;
    size_t size = 0, room = 0;

    if (!in)
        return NULL;
    if ((out = open_memstream(&text, &size))) {
        for (int n = 0; getdelim(&word, &room, '\0', in) > 0; n++) {
            if (n)
                putc(' ', out);
            put_word(out, word);
        }
        if (fclose(out)) {
            free(text);
            text = NULL;
        }
    }
    free(word);
    fclose(in);
    return text;
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

uint64_t threads_here(uint64_t asked)
{
    cpu_set_t set;

    if (asked)
        return asked;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : (uint64_t)CPU_COUNT(&set);
}
