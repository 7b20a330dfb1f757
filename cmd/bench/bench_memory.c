/* bench_memory.c: what the memory moves: plain loops over arrays that no cache holds, on one thread
 * and on all. A byte counts once where the program reads it and once where it writes it; what the
 * processor fetches because it writes only part of a line does not count. Stores are plain ones, as
 * the kernels have them. */
#include "cmd/bench/bench.h"

#include <errno.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef float vec __attribute__((vector_size(32), aligned(32)));

enum { KINDS = 5, WAYS = 2, STREAMS = 4, UNROLL = 2 };

/* Places that are read at once are no power of two apart: they would share a bank of the memory. */
enum { SKEW_BYTES = 5 * 4096 + 192, SKEW_VECS = SKEW_BYTES / 32 };

static const struct memory_kind {
    const char *name;
    double      reads, writes;
} kinds[KINDS] = {
    { "read", 1, 0 }, { "write", 0, 1 }, { "copy", 1, 1 }, { "triad", 2, 1 }, { "in place", 1, 1 }
};

struct arrays {
    vec   *a, *b, *c;
    size_t n, bytes;
}; // n vectors each

struct memory_run {
    struct arrays *arrays;
    size_t         kind;
    int            threads;
};

static volatile float sink; // what is read must be used

/* How long each of STREAMS parts of n vectors is, and so how far apart they begin;
 * what remains comes after. */
static size_t stream_length(size_t n)
{
    size_t each = n / STREAMS;

    return (each > SKEW_VECS ? each - SKEW_VECS : each) / UNROLL * UNROLL;
}

/* From four places at once, as kernels with several arrays do: more of it is fetched ahead. */
static void part_read(const vec *a, size_t n)
{
    size_t each = stream_length(n);
    vec    sum[STREAMS][UNROLL] = {0}, all = {0};

    for (size_t i = 0; i < each; i += UNROLL)
        for (size_t s = 0; s < STREAMS; s++)
            for (size_t k = 0; k < UNROLL; k++)
                sum[s][k] += a[s * each + i + k];
    for (size_t i = STREAMS * each; i < n; i++)
        all += a[i];
    for (size_t s = 0; s < STREAMS; s++)
        for (size_t k = 0; k < UNROLL; k++)
            all += sum[s][k];
    sink = all[0];
}

static void part_in_place(vec *a, size_t n)
{
    size_t each = stream_length(n);

    for (size_t i = 0; i < each; i++)
        for (size_t s = 0; s < STREAMS; s++)
            a[s * each + i] *= 0.5f;
    for (size_t i = STREAMS * each; i < n; i++)
        a[i] *= 0.5f;
}

/* The barriers keep the compiler from calling memset and memcpy, whose stores pass the caches by.
 */
static void part_write(vec *a, size_t n)
{
    vec x = {1, 2, 3, 4, 5, 6, 7, 8};

    for (size_t i = 0; i + 4 <= n; i += 4) {
        a[i] = a[i + 1] = a[i + 2] = a[i + 3] = x;
        __asm__ volatile("" ::: "memory");
    }
}

static void part_copy(vec *a, const vec *b, size_t n)
{
    for (size_t i = 0; i + 4 <= n; i += 4) {
        a[i] = b[i];
        a[i + 1] = b[i + 1];
        a[i + 2] = b[i + 2];
        a[i + 3] = b[i + 3];
        __asm__ volatile("" ::: "memory");
    }
}

static void part_triad(vec *a, const vec *b, const vec *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] + 3.0f * c[i];
}

static void memory_run(void *ctx, size_t call)
{
    const struct memory_run *r = ctx;
    const struct arrays     *x = r->arrays;

    (void)call;
#pragma omp parallel num_threads(r->threads)
    {
        size_t each = x->n / (size_t)omp_get_num_threads(),
               at = each * (size_t)omp_get_thread_num();

        switch (r->kind) {
        case 0:
            part_read(x->a + at, each);
            break;
        case 1:
            part_write(x->a + at, each);
            break;
        case 2:
            part_copy(x->a + at, x->b + at, each);
            break;
        case 3:
            part_triad(x->a + at, x->b + at, x->c + at, each);
            break;
        default:
            part_in_place(x->a + at, each);
            break;
        }
    }
}

/* Four times the last cache, for each of three arrays; between 128 (quick: 64) and 512 MiB. */
static size_t array_bytes(const struct bench *b)
{
    long   cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    size_t least = (size_t)(b->o->quick ? 64 : 128) << 20, most = (size_t)512 << 20,
           bytes = cache > 0 ? 4 * (size_t)cache : 0;

    return bytes < least ? least : bytes > most ? most : bytes;
}

static int arrays_open(struct arrays *x, size_t bytes, struct err *err)
{
    size_t all = 3 * (bytes + SKEW_BYTES);
    char  *at = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        return err_set(err, -ENOMEM, "out of memory for three arrays of %zu bytes", bytes);
    madvise(at, all, MADV_HUGEPAGE);
    memset(at, 0, all);
    *x = (struct arrays){.a = (vec *)(void *)at,
                         .b = (vec *)(void *)(at + bytes + SKEW_BYTES),
                         .c = (vec *)(void *)(at + 2 * (bytes + SKEW_BYTES)),
                         .n = bytes / sizeof(vec),
                         .bytes = bytes};
    return 0;
}

int bench_memory(struct bench *b, struct err *err)
{
    struct arrays     x;
    struct memory_run runs[KINDS * WAYS];
    struct bench_item items[KINDS * WAYS];
    json_t           *rows = json_array();
    int               threads = (int)b->o->train.threads, rc = arrays_open(&x, array_bytes(b), err);

    json_object_set_new(b->report, "memory", rows);
    if (rc)
        return rc;
    for (size_t i = 0; i < KINDS * WAYS; i++) {
        runs[i] = (struct memory_run){&x, i / WAYS, i % WAYS ? threads : 1};
        items[i] = (struct bench_item){memory_run, &runs[i], 0};
    }
    rc = bench_rounds(items, KINDS * WAYS, b->o->rounds, bench_least(b), err);
    for (size_t k = 0; k < KINDS && !rc; k++) {
        double bytes = (kinds[k].reads + kinds[k].writes) * (double)x.bytes;

        json_array_append_new(rows, json_pack("{s:s, s:f, s:f, s:f, s:f}", "kind", kinds[k].name,
                                              "one_thread", bytes / items[k * WAYS].seconds,
                                              "all_threads", bytes / items[k * WAYS + 1].seconds,
                                              "reads", kinds[k].reads, "writes", kinds[k].writes));
    }
    munmap(x.a, 3 * (x.bytes + SKEW_BYTES));
    return rc;
}

double bench_bandwidth(const json_t *report, int all, int writes)
{
    const char *key = all ? "all_threads" : "one_thread";
    double      best = 0;
    json_t     *row;
    size_t      i;

    json_array_foreach(json_object_get(report, "memory"), i, row) {
        int counts = writes ? bench_number(row, "reads") > 0 && bench_number(row, "writes") > 0
                            : !(bench_number(row, "writes") > 0);

        best = counts && bench_number(row, key) > best ? bench_number(row, key) : best;
    }
    return best;
}

void bench_memory_print(const json_t *report)
{
    static const struct bench_column columns[] = {{"kind", "memory", NULL, 0},
                                                  {"one_thread", "1 thread", "%.1f", 1e-9},
                                                  {"all_threads", "all threads", "%.1f", 1e-9},
                                                  {0}};

    printf("Memory bandwidth, GB/s\n");
    bench_table(json_object_get(report, "memory"), columns);
    printf("=> loops that read and write move at most %.1f GB/s on all threads, %.1f on one\n",
           bench_bandwidth(report, 1, 1) * 1e-9, bench_bandwidth(report, 0, 1) * 1e-9);
}
