/* engine.c: how siTrain's own products should be cut on this machine: `make bench-engine`. It
 * multiplies the shapes of GPT-2 124M (4 x 1024 tokens) with each cut (struct cuts in
 * kernels/product/block_form.h) by turns, and with oneDNN, and prints GFLOP/s of a step's products,
 * by group. Without an argument operands are bf16.
 *
 *     engine [bf16|fp32] [THREADS] [ROUNDS] */
#include <omp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "data/base/clock.h"
#include "data/base/round.h"
#include "kernels/product/block_rate.h"
#include "kernels/product/product.h"

enum { GROUPS = 6, CALLS = 4, MOST_VARIANTS = 128, MOST_ROUNDS = 32 };

static const char *const groups[GROUPS] = { "forward", "back", "gradient", "logits", "head dx",
                                            "head dW" };

static const struct kind { int group, times; struct matmul_shape s; } kinds[] = {
    { 0, 48, { MATMUL_NN, 1024, 2304, 768, DT_BF16, DT_BF16, 1, 0, 1 } },
    { 0, 48, { MATMUL_NN, 1024, 768, 768, DT_BF16, DT_F32, 1, 0, 1 } },
    { 0, 48, { MATMUL_NN, 1024, 3072, 768, DT_BF16, DT_BF16, 1, 0, 1 } },
    { 0, 48, { MATMUL_NN, 1024, 768, 3072, DT_BF16, DT_F32, 1, 0, 1 } },
    { 1, 48, { MATMUL_NT, 1024, 768, 2304, DT_BF16, DT_F32, 0, 0, 1 } },
    { 1, 48, { MATMUL_NT, 1024, 768, 768, DT_BF16, DT_BF16, 0, 0, 1 } },
    { 1, 48, { MATMUL_NT, 1024, 768, 3072, DT_BF16, DT_F32, 0, 0, 1 } },
    { 1, 48, { MATMUL_NT, 1024, 3072, 768, DT_BF16, DT_BF16, 0, 0, 1 } },
    { 2, 48, { MATMUL_TN, 768, 2304, 1024, DT_BF16, DT_F32, 0, 1, 0 } },
    { 2, 48, { MATMUL_TN, 768, 768, 1024, DT_BF16, DT_F32, 0, 1, 0 } },
    { 2, 48, { MATMUL_TN, 768, 3072, 1024, DT_BF16, DT_F32, 0, 1, 0 } },
    { 2, 48, { MATMUL_TN, 3072, 768, 1024, DT_BF16, DT_F32, 0, 1, 0 } },
    { 3, 16, { MATMUL_NT, 256, 50240, 768, DT_BF16, DT_F32, 0, 0, 0 } },
    { 4, 8, { MATMUL_NN, 512, 768, 50257, DT_BF16, DT_F32, 0, 0, 0 } },
    { 5, 8, { MATMUL_TN, 50257, 768, 512, DT_BF16, DT_F32, 0, 1, 0 } },
};
enum { KINDS = sizeof kinds / sizeof *kinds };

struct variant {
    char                     name[48];
    struct cuts              cuts;
    const struct block_form *form; // NULL: oneDNN
    int                      small_pages;
};

static struct variant variants[MOST_VARIANTS];
static size_t         n_variants;

static void variant(const char *name, const struct block_form *form, struct cuts cuts, int pages)
{
    struct variant *v = &variants[n_variants++];

    snprintf(v->name, sizeof v->name, "%s", name);
    v->cuts = cuts;
    v->form = form;
    v->small_pages = pages;
}

static void *map(size_t bytes, int small_pages)
{
    size_t huge = 2 << 20, all = round_up(bytes + 4096, huge) + huge;
    char  *p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        exit(1);
    p = (char *)round_up((size_t)p, huge);
    madvise(p, all - huge, small_pages ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    memset(p, 0, all - huge);
    return p;
}

static struct block_form idle;

static void nothing(const struct block *b) { (void)b; }

static void cut_vary(const struct block_form *form, const char *what, size_t at, const size_t *to,
                     size_t n)
{
    char name[48];

    for (size_t i = 0; i < n; i++) {
        struct cuts c = form->cuts;

        memcpy((char *)&c + at, &to[i], sizeof to[i]);
        snprintf(name, sizeof name, "%s %zu", what, to[i]);
        variant(name, form, c, 0);
    }
}

#define VARY(cut, ...) cut_vary(form, #cut, offsetof(struct cuts, cut), (size_t[]){ __VA_ARGS__ }, \
                                sizeof (size_t[]){ __VA_ARGS__ } / sizeof(size_t))

/* One cut changed at a time. */
static void variants_make(const struct block_form *form)
{
    variant("as is", form, form->cuts, 0);
    variant("as is, 4 KiB pages", form, form->cuts, 1);
    idle = *form;
    idle.multiply = nothing;
    variant("packing and results only", &idle, form->cuts, 0);
    VARY(lanes, 32, 128, 256);
    VARY(tall, 32, 96, 128, 256);
    VARY(wide, 192, 384, 1536);
    VARY(rows, 64, 256);
    VARY(cols, 96, 384);
    VARY(depth, 128, 192, 256, 384, 512);
    VARY(turns, 1, 3, 4);
    VARY(whole, 1 << 20, 16 << 20);
    if (form->tiled)
        VARY(ahead, 0, 32);
}

/* ---- measuring ---- */

static void  *a, *b, *bias, *c, *scratch[2], *packed;
static double seconds[MOST_VARIANTS][KINDS][MOST_ROUNDS];

static int order(const void *x, const void *y)
{
    return (*(const double *)x > *(const double *)y) - (*(const double *)x < *(const double *)y);
}

static double one_product(const struct variant *v, const struct matmul_shape *s, int threads,
                          const struct matmul *onednn, size_t id)
{
    double         times[CALLS + 1];
    struct product p;
    const void    *right = b;

    if (v->form) {
        product_plan(&p, s, threads, v->form, &v->cuts);
        if (s->pack_b)
            product_pack(&p, packed, b), right = packed;
    } else if (matmul_packed(onednn, id)) {
        matmul_pack(onednn, id, packed, b), right = packed;
    }
    for (int i = 0; i <= CALLS; i++) {
        uint64_t start = clock_ns();

        if (v->form)
            product_run(&p, c, a, right, s->bias ? bias : NULL, scratch[v->small_pages]);
        else
            matmul_run(onednn, id, c, a, right, s->bias ? bias : NULL, scratch[0]);
        times[i] = (double)(clock_ns() - start) * 1e-9;
    }
    qsort(times + 1, CALLS, sizeof *times, order);
    return (times[CALLS / 2] + times[CALLS / 2 + 1]) / 2;
}

static void buffers_make(const struct matmul_shape *shapes, int threads,
                         const struct matmul *onednn, const struct block_form *form)
{
    size_t bytes[6] = { 0 };

    for (size_t k = 0; k < KINDS; k++) {
        const struct matmul_shape *s = &shapes[k];

        bytes[0] = size_max(bytes[0], s->m * s->k * 4);
        bytes[1] = size_max(bytes[1], s->k * s->n * 4);
        bytes[2] = size_max(bytes[2], s->n * 4);
        bytes[3] = size_max(bytes[3], s->m * s->n * 4);
        bytes[5] = size_max(bytes[5], onednn ? matmul_packed(onednn, k) : 0);
        for (size_t v = 0; v < n_variants; v++) {
            struct product p;

            product_plan(&p, s, threads, form, &variants[v].cuts);
            bytes[4] = size_max(bytes[4], p.scratch_bytes);
            bytes[5] = size_max(bytes[5], s->pack_b ? product_packed(&p) : 0);
        }
    }
    bytes[4] = size_max(bytes[4], onednn ? onednn->scratch_bytes : 0);
    a = map(bytes[0], 0), b = map(bytes[1], 0), bias = map(bytes[2], 0), c = map(bytes[3], 0);
    scratch[0] = map(bytes[4], 0), scratch[1] = map(bytes[4], 1), packed = map(bytes[5], 0);
    for (size_t i = 0; i < bytes[0] / 4; i++)
        ((uint32_t *)a)[i] = 0x3c003c00u + (uint32_t)(i * 2654435761u >> 12 & 0x80ff80ff);
    for (size_t i = 0; i < bytes[1] / 4; i++)
        ((uint32_t *)b)[i] = 0x3c003c00u + (uint32_t)(i * 2246822519u >> 11 & 0x80ff80ff);
}

static void report(int rounds)
{
    printf("%-32s", "GFLOP/s");
    for (int g = 0; g < GROUPS; g++)
        printf("%10s", groups[g]);
    printf("%10s%10s\n", "step", "s a step");
    for (size_t v = 0; v < n_variants; v++) {
        double flops[GROUPS + 1] = { 0 }, time[GROUPS + 1] = { 0 };

        for (size_t k = 0; k < KINDS; k++) {
            const struct kind *x = &kinds[k];
            double             f = 2e-9 * (double)(x->s.m * x->s.n) * (double)x->s.k * x->times;

            qsort(seconds[v][k], (size_t)rounds, sizeof(double), order);
            double t = seconds[v][k][rounds / 2] * x->times;

            flops[x->group] += f, time[x->group] += t, flops[GROUPS] += f, time[GROUPS] += t;
        }
        printf("%-32s", variants[v].name);
        for (int g = 0; g <= GROUPS; g++)
            printf("%10.0f", flops[g] / time[g]);
        printf("%10.3f\n", time[GROUPS]);
    }
    printf("\n%-26s", "GFLOP/s, each product");
    for (size_t v = 0; v < 4 && v < n_variants; v++)
        printf("%28s", variants[v].name);
    printf("\n");
    for (size_t k = 0; k < KINDS; k++) {
        const struct matmul_shape *s = &kinds[k].s;

        printf("%-9s%5zu %5zu %5zu", groups[kinds[k].group], s->m, s->n, s->k);
        for (size_t v = 0; v < 4 && v < n_variants; v++)
            printf("%28.0f", 2e-9 * (double)(s->m * s->n) * (double)s->k /
                                 seconds[v][k][rounds / 2]);
        printf("\n");
    }
}

static void starts(int threads)
{
    uint64_t start = clock_ns();

    for (int i = 0; i < 1000; i++) {
        #pragma omp parallel
        {
            #pragma omp barrier
        }
    }
    printf("%d threads: a start of all, with one barrier: %.1f us\n", threads,
           (double)(clock_ns() - start) * 1e-6);
}

/* The form alone, its operands in `bytes` of a cache. */
static void form_alone(const struct block_form *f, int threads, size_t bytes, const char *where)
{
    void *operands = map(bytes, 0);

    printf("%d threads, %s alone, operands in %s: %.0f GFLOP/s, with prefetch %.0f\n", threads,
           f->name, where, 1e-9 * block_rate(f, operands, bytes, 0, 300000000),
           1e-9 * block_rate(f, operands, bytes, 16, 300000000));
}

int main(int argc, char **argv)
{
    enum dtype dt = argc > 1 && !strcmp(argv[1], "fp32") ? DT_F32 : DT_BF16;
    int threads = argc > 2 ? atoi(argv[2]) : omp_get_max_threads();
    int rounds = argc > 3 ? atoi(argv[3]) : 5;
    const struct block_form *form = block_form_of(dt);
    struct matmul_shape      shapes[KINDS];
    struct matmul           *onednn = NULL;
    struct err               why;

    rounds = rounds < MOST_ROUNDS ? rounds : MOST_ROUNDS;
    for (size_t k = 0; k < KINDS; k++) {
        shapes[k] = kinds[k].s;
        shapes[k].ab_dt = dt;
        shapes[k].c_dt = shapes[k].c_dt == DT_BF16 ? dt : DT_F32;
    }
    omp_set_num_threads(threads);
    variants_make(form);
    if (matmul_open(&onednn, MATMUL_ONEDNN, shapes, KINDS, threads, &why)) {
        printf("no oneDNN: %s\n", why.text);
    } else {
        variants[n_variants] = variants[1];
        variants[1] = (struct variant){ .name = "oneDNN", .cuts = form->cuts };
        n_variants++;
    }
    printf("%s, %s; %s\n", form->name, dtype_name(dt), onednn ? onednn->describe : "");
    buffers_make(shapes, threads, onednn, form);
    starts(threads);
    form_alone(form, threads, 24 << 10, "L1");
    form_alone(form, threads, block_rate_l2(), "L2");
    form_alone(form, threads, 16 << 20, "L3");
    fflush(stdout);
    for (int r = 0; r < rounds; r++)
        for (size_t k = 0; k < KINDS; k++)
            for (size_t v = 0; v < n_variants; v++)
                seconds[(v + (size_t)r * 7) % n_variants][k][r] = one_product(
                    &variants[(v + (size_t)r * 7) % n_variants], &shapes[k], threads, onednn, k);
    report(rounds);
    matmul_close(onednn);
    return 0;
}
