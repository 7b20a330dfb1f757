/* rss.h: how much memory this process has, as the kernel sees it. */
#ifndef DATA_BASE_RSS_H
#define DATA_BASE_RSS_H

#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static inline uint64_t rss_now(void) // bytes resident; 0 where /proc does not say
{
    FILE              *f = fopen("/proc/self/statm", "re");
    unsigned long long pages = 0;

    if (f && fscanf(f, "%*u %llu", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static inline uint64_t rss_peak(void) // the most there ever were
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (uint64_t)u.ru_maxrss * 1024;
}

#endif
