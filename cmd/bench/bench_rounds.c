/* bench_rounds.c: how everything short is timed. Machines are shared and their clocks wander: what
 * is compared takes turns, and the median of its turns counts. */
#include "cmd/bench/bench.h"

#include "data/base/clock.h"

#include <errno.h>
#include <stdlib.h>

static int order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double bench_median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, order);
    return n == 0 ? 0 : n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

double bench_least(const struct bench *b)
{
    return b->o->quick ? 0.004 : 0.02;
}

static double time_calls(const struct bench_item *item, size_t first, size_t n)
{
    uint64_t start_ns = clock_ns();

    for (size_t i = 0; i < n; i++)
        item->run(item->ctx, first + i);
    return (double)(clock_ns() - start_ns) * 1e-9;
}

int bench_rounds(struct bench_item *items, size_t n, uint64_t rounds, double least, struct err *err)
{
    double *samples = calloc(n * rounds + 1, sizeof *samples);
    size_t *calls = calloc(n + 1, sizeof *calls), *done = calloc(n + 1, sizeof *done);
    int     rc = samples && calls && done
                     ? 0
                     : err_set(err, -ENOMEM, "out of memory for %zu measurements", n);

    for (size_t i = 0; i < n && !rc; i++) {
        double once = time_calls(&items[i], 0, 1);

        if (once < least)
            once = time_calls(&items[i], 1, 1); // without the page faults of the first
        calls[i] = once < least ? (size_t)(least / (once > 1e-8 ? once : 1e-8)) + 1 : 1;
        done[i] = 2;
    }
    for (size_t r = 0; r < rounds && !rc; r++)
        for (size_t i = 0; i < n; i++) {
            samples[i * rounds + r] = time_calls(&items[i], done[i], calls[i]) / (double)calls[i];
            done[i] += calls[i];
        }
    for (size_t i = 0; i < n && !rc; i++)
        items[i].seconds = bench_median(samples + i * rounds, rounds);
    free(samples);
    free(calls);
    free(done);
    return rc;
}
