/* rss.c: the resident size, from /proc and getrusage. */
#include "data/base/rss.h"

#include <stdio.h>
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
