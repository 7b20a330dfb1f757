/* bench_memory.c: measures the memory's bandwidth with plain loops over arrays larger than any
 * cache, with one thread and with all. A byte counts once when the program reads it and once when
 * it writes it. Fetching a line because only part of it is written does not count. Stores are
 * plain, as in the kernels. */
#include "bench/bench.h"

#include "data/base/round.h"

#include <math.h>
#include <omp.h>
#include <unistd.h>

typedef float vec __attribute__((vector_size(32), aligned(32)));

enum { KINDS = 5, STREAMS = 4, UNROLL = 2 };

/* If places that are read together were a power of two apart, they would share a memory bank. */
enum { SKEW_BYTES = 5 * 4096 + 192, SKEW_VECS = SKEW_BYTES / 32 };

struct arrays {
    vec   *a, *b, *c;
    size_t n; // vectors in each
    void (*part)(struct arrays x); // the loop over them
};

static volatile float sink; // values that are read must be used

/* Length of STREAMS equal parts of n vectors, and their distance. The rest comes after them. */
static size_t stream_length(size_t n)
{
    size_t each = n / STREAMS;

    return (each > SKEW_VECS ? each - SKEW_VECS : each) / UNROLL * UNROLL;
}

/* Reads from four places at the same time, like kernels with several arrays: more is prefetched. */
static void part_read(struct arrays x)
{
    size_t each = stream_length(x.n);
    vec    sum[STREAMS][UNROLL] = {0}, all = {0};

    for (size_t i = 0; i < each; i += UNROLL)
        for (size_t s = 0; s < STREAMS; s++)
            for (size_t k = 0; k < UNROLL; k++)
                sum[s][k] += x.a[s * each + i + k];
    for (size_t i = STREAMS * each; i < x.n; i++)
        all += x.a[i];
    for (size_t s = 0; s < STREAMS; s++)
        for (size_t k = 0; k < UNROLL; k++)
            all += sum[s][k];
    sink = all[0];
}

static void part_in_place(struct arrays x)
{
    size_t each = stream_length(x.n);

    for (size_t i = 0; i < each; i++)
        for (size_t s = 0; s < STREAMS; s++)
            x.a[s * each + i] *= 0.5f;
    for (size_t i = STREAMS * each; i < x.n; i++)
        x.a[i] *= 0.5f;
}

/* The barriers keep the compiler from calling memset and memcpy, whose stores bypass caches. */
static void part_write(struct arrays x)
{
    vec v = {1, 2, 3, 4, 5, 6, 7, 8};

    for (size_t i = 0; i + 4 <= x.n; i += 4) {
        x.a[i] = x.a[i + 1] = x.a[i + 2] = x.a[i + 3] = v;
        __asm__ volatile("" ::: "memory");
    }
}

static void part_copy(struct arrays x)
{
    for (size_t i = 0; i + 4 <= x.n; i += 4) {
        x.a[i] = x.b[i];
        x.a[i + 1] = x.b[i + 1];
        x.a[i + 2] = x.b[i + 2];
        x.a[i + 3] = x.b[i + 3];
        __asm__ volatile("" ::: "memory");
    }
}

static void part_triad(struct arrays x)
{
    for (size_t i = 0; i < x.n; i++)
        x.a[i] = x.b[i] + 3.0f * x.c[i];
}

static const struct memory_kind {
    const char *name;
    double      reads, writes;
    void      (*part)(struct arrays x);
} kinds[KINDS] = {{"read", 1, 0, part_read},
                  {"write", 0, 1, part_write},
                  {"copy", 1, 1, part_copy},
                  {"triad", 2, 1, part_triad},
                  {"in place", 1, 1, part_in_place}};

static void loop_run(void *ctx, size_t call)
{
    const struct arrays *x = ctx;

    (void)call;
#pragma omp parallel
    {
        size_t each = x->n / (size_t)omp_get_num_threads(),
               at = each * (size_t)omp_get_thread_num();

        x->part((struct arrays){x->a + at, x->b + at, x->c + at, each, NULL});
    }
}

static int memory_run(struct bench *b, json_t *rows, struct err *err)
{
    // each of three arrays has four times the last cache, from 128 to 512 MiB (quick: 64 to 128)
    long   cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    size_t least = (size_t)(b->o->quick ? 64 : 128) << 20, four = cache > 0 ? 4 * (size_t)cache : 0,
           most = (size_t)(b->o->quick ? 128 : 512) << 20,
           bytes = size_max(least, size_min(four, most)), n = bytes / sizeof(vec);
    struct arena      memory = {0};
    struct arrays     x[KINDS];
    struct bench_item items[2 * KINDS]; // each with one thread, and with all

    arena_take(&memory, 3 * (bytes + SKEW_BYTES));
    int rc = arena_map(&memory, "three arrays that no cache holds", err);
    if (rc)
        return rc;
    memset(memory.base, 0, memory.bytes);
    for (size_t k = 0; k < KINDS; k++) {
        vec *a = (vec *)(void *)memory.base, *second = a + n + SKEW_VECS;

        x[k] = (struct arrays){a, second, second + n + SKEW_VECS, n, kinds[k].part};
        for (size_t all = 0; all < 2; all++)
            items[2 * k + all] = (struct bench_item){
                .run = loop_run, .ctx = &x[k], .threads = all ? (int)b->o->train.threads : 1 };
        json_array_append_new(rows, json_pack("{s:s, s:f, s:f}", "kind", kinds[k].name, "reads",
                                              kinds[k].reads, "writes", kinds[k].writes));
    }
    rc = bench_rounds(items, 2 * KINDS, b->o->rounds, b->seconds, err);
    for (size_t i = 0; i < 2 * KINDS && !rc; i++)
        bench_put(json_array_get(rows, i / 2), i % 2 ? "all_threads" : "one_thread",
                  (kinds[i / 2].reads + kinds[i / 2].writes) * (double)bytes / items[i].median);
    omp_set_num_threads((int)b->o->train.threads);
    arena_free(&memory);
    return rc;
}

double bench_bandwidth(const json_t *rows, int all, int writes)
{
    const char *key = all ? "all_threads" : "one_thread";
    double      best = 0;
    json_t     *row;
    size_t      i;

    json_array_foreach(rows, i, row) {
        int counts = writes ? json_num(row, "reads") > 0 && json_num(row, "writes") > 0
                            : !(json_num(row, "writes") > 0);

        best = counts ? fmax(best, json_num(row, key)) : best;
    }
    return best;
}

static void memory_print(const json_t *rows)
{
    static const struct bench_column columns[] = {
        {"kind", "memory", NULL, 0}, {"one_thread", "1 thread", "%.1f", 1e-9},
        {"all_threads", "all threads", "%.1f", 1e-9}, {0}};

    printf("Memory bandwidth, GB/s\n");
    bench_table(rows, columns, NULL);
    printf("=> loops that read and write move at most %.1f GB/s on all threads, %.1f on one\n",
           bench_bandwidth(rows, 1, 1) * 1e-9, bench_bandwidth(rows, 0, 1) * 1e-9);
}

const struct bench_section bench_memory = {
    .name = "memory", .is_rows = 1, .run = memory_run, .print = memory_print};
