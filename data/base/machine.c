/* machine.c: asks the kernel. */
#include "data/base/machine.h"

#include <assert.h>
#include <sys/random.h>
#include <sys/resource.h>
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
