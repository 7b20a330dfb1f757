/* bench_rounds.c: times everything that bench measures. Machines are shared and their clocks vary,
 * so the things that are compared take turns, and the median of a thing's turns counts. */
#include "bench/bench.h"

#include "data/base/clock.h"
#include "data/base/number.h"

#include <omp.h>

double bench_median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, number_order);
    return n == 0 ? 0 : n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static double time_calls(struct bench_item *item, size_t n)
{
    uint64_t start_ns = clock_ns();

    if (item->threads)
        omp_set_num_threads(item->threads);
    for (size_t i = 0; i < n; i++)
        item->run(item->ctx, item->done++);
    return (double)(clock_ns() - start_ns) * 1e-9 / (double)n;
}

static void calls_find(struct bench_item *item, double seconds)
{
    double once = time_calls(item, 1);

    if (once < seconds)
        once = time_calls(item, 1); // without the page faults of the first
    item->calls = once < seconds ? (size_t)(seconds / (once > 1e-8 ? once : 1e-8)) + 1 : 1;
}

int bench_rounds(struct bench_item *items, size_t n, uint64_t rounds, double seconds,
                 struct err *err)
{
    int rc = 0;

    rounds = rounds < BENCH_MOST_ROUNDS ? rounds : BENCH_MOST_ROUNDS;
    for (size_t i = 0; i < n; i++)
        if (items[i].run)
            calls_find(&items[i], seconds);
    for (size_t r = 0; r < rounds && !rc; r++)
        for (struct bench_item *it = items; it < items + n && !rc; it++)
            if (it->run)
                it->figure[r] = time_calls(it, it->calls);
            else
                rc = it->measure(it->ctx, &it->figure[r], err);
    for (size_t i = 0; i < n && !rc; i++)
        items[i].median = bench_median(items[i].figure, rounds);
    return rc;
}

void bench_fill(void *bytes, size_t n, int sign)
{
    uint32_t *x = bytes, mask = sign ? 0x807F807Fu : 0x007F007Fu;

#pragma omp parallel for
    for (size_t i = 0; i < n / 4; i++) {
        uint32_t hash = (uint32_t)i * 2654435761u;

        x[i] = 0x3D003D00u | ((hash ^ hash >> 15) & mask);
    }
}
