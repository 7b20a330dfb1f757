/* bench_rounds.c: how everything is timed. Machines are shared and their clocks wander: what is
 * compared takes turns, and the median of its turns counts. */
#include "cmd/bench/bench.h"

#include "data/base/clock.h"

#include <errno.h>
#include <omp.h>
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

double bench_seconds(const struct bench *b)
{
    return b->o->quick ? 0.004 : 0.02;
}

struct turns {
    size_t calls, done; // in each turn; so far
    double figure[BENCH_MOST_ROUNDS];
};

static double time_calls(const struct bench_item *item, struct turns *t, size_t n)
{
    uint64_t start_ns = clock_ns();

    if (item->threads)
        omp_set_num_threads(item->threads);
    for (size_t i = 0; i < n; i++)
        item->run(item->ctx, t->done++);
    return (double)(clock_ns() - start_ns) * 1e-9 / (double)n;
}

/* How many calls a turn has. */
static void calls_find(const struct bench_item *item, struct turns *t, double seconds)
{
    double once = time_calls(item, t, 1);

    if (once < seconds)
        once = time_calls(item, t, 1); // without the page faults of the first
    t->calls = once < seconds ? (size_t)(seconds / (once > 1e-8 ? once : 1e-8)) + 1 : 1;
}

static int take_turn(struct bench_item *item, struct turns *t, size_t round, struct err *err)
{
    int rc;

    if (item->run)
        t->figure[round] = time_calls(item, t, t->calls);
    if (item->run || item->left_out)
        return 0;
    rc = item->measure(item->ctx, &t->figure[round], err);
    item->left_out = rc > 0;
    return rc < 0 ? rc : 0;
}

int bench_rounds(struct bench_item *items, size_t n, uint64_t rounds, double seconds,
                 struct err *err)
{
    struct turns *t = calloc(n + 1, sizeof *t);
    int           rc = t ? 0 : err_set(err, -ENOMEM, "out of memory for %zu measurements", n);

    rounds = rounds < BENCH_MOST_ROUNDS ? rounds : BENCH_MOST_ROUNDS;
    for (size_t i = 0; i < n && !rc; i++)
        if (items[i].run)
            calls_find(&items[i], &t[i], seconds);
    for (size_t r = 0; r < rounds && !rc; r++)
        for (size_t i = 0; i < n && !rc; i++)
            rc = take_turn(&items[i], &t[i], r, err);
    for (size_t i = 0; i < n && !rc; i++)
        if (!items[i].left_out && rounds > 0) {
            items[i].median = bench_median(t[i].figure, rounds);
            items[i].least = t[i].figure[0];
            items[i].most = t[i].figure[rounds - 1];
        }
    free(t);
    return rc;
}

int bench_ways(const struct bench *b, const struct bench_item *runs, size_t n, json_t *rows,
               struct err *err)
{
    int                threads = (int)b->o->train.threads, rc;
    struct bench_item *items = calloc(2 * n, sizeof *items);

    if (!items)
        return err_set(err, -ENOMEM, "out of memory for %zu measurements", n);
    for (size_t i = 0; i < 2 * n; i++) {
        items[i] = runs[i / 2];
        items[i].threads = i % 2 ? threads : 1;
    }
    rc = bench_rounds(items, 2 * n, b->o->rounds, bench_seconds(b), err);
    for (size_t i = 0; i < 2 * n && !rc; i++)
        bench_put(json_array_get(rows, i / 2), i % 2 ? "all_threads" : "one_thread",
                  items[i].bytes / items[i].median);
    omp_set_num_threads(threads);
    free(items);
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
