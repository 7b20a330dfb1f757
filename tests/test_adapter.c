/* test_adapter.c: the products of adapters against a naive double-precision oracle, on odd sizes:
 * of both layouts, of a tensor alone and of several in one matrix, in fp32 and bf16, with a dropout
 * mask of their own for each tensor. Single tokens, whose bits do not depend on how many there are.
 * Columns of a matrix beside guard pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/columns.h"
#include "kernels/elementwise.h"
#include "kernels/rng.h"
#include "model/layer/adapter.h"
#include "model/lora/lora.h"
#include "tests/ref.h"
#include "tests/rig.h"

enum { SEQ = 37, RANK = 5 };

/* ---- columns ---- */

static void test_columns(void **state)
{
    enum { N = 7, WIDTH = 13, STRIDE = 29, AT = 9 };

    (void)state;
    for (enum dtype dt = DT_F32; dt <= DT_BF16; dt++) {
        size_t bytes = dtype_bytes(dt);
        void  *x = guard_alloc(N * STRIDE * bytes), *was = guard_alloc(N * STRIDE * bytes),
             *out = guard_alloc(N * WIDTH * bytes);
        float *y = guard_alloc(N * WIDTH * sizeof *y);

        for (size_t i = 0; i < N * STRIDE; i++)
            dtype_put(x, dt, i, rng_uniform(1, 0, i) - 0.5f);
        for (size_t i = 0; i < N * WIDTH; i++)
            y[i] = rng_uniform(1, 1, i) - 0.5f;
        memcpy(was, x, N * STRIDE * bytes);
        struct columns of = { N, WIDTH, STRIDE, dt, dtype_at(x, dt, AT) };
        columns_take(out, &of);
        columns_add(&of, y);
        for (size_t i = 0; i < N; i++)
            for (size_t j = 0; j < STRIDE; j++) {
                size_t at = i * STRIDE + j, in = i * WIDTH + j - AT;
                float  sum = dtype_get(was, dt, at);

                if (j >= AT && j < AT + WIDTH) {
                    assert_true(dtype_get(out, dt, in) == sum);
                    sum += y[in];
                    sum = dt == DT_F32 ? sum : bf16_to_f32(bf16_from_f32(sum));
                }
                assert_true(dtype_get(x, dt, at) == sum);
            }
        guard_free(x);
        guard_free(was);
        guard_free(out);
        guard_free(y);
    }
}

/* ---- a model's adapters ---- */

/* One matrix of a model, and random numbers for its adapters: x is what goes in, y what comes out
 * (or their gradients), as floats, rounded as the model's are. */
struct bench {
    struct model        m;
    struct adapter_rows rows;
    struct arch_matrix  of;
    size_t              matrix, in, out, size;
    float              *wire, *grad, *before; // of a block, as floats; gradients before
    void               *narrow;               // the block's wire
    float              *x, *y;
};

static float *random_new(size_t n, uint64_t stream)
{
    float *out = malloc(n * sizeof *out);

    assert_non_null(out);
    for (size_t i = 0; i < n; i++)
        out[i] = rng_uniform(7, stream, i) - 0.5f;
    return out;
}

/* The same numbers in a dtype. Rounds `from`, too. */
static void *in_dtype(float *from, size_t n, enum dtype dt)
{
    void *out = malloc(n * dtype_bytes(dt));

    assert_non_null(out);
    convert(out, dt, from, DT_F32, n);
    convert(from, DT_F32, out, dt, n);
    return out;
}

static struct model_config config_of(const struct arch *arch, float dropout)
{
    struct model_config g = arch_config(arch, (struct model_config){
        .n_layer = 1, .n_head = 3, .n_kv_head = 1, .n_embd = 21, .head_dim = 7, .n_inner = 27,
        .vocab = 11, .n_positions = SEQ, .norm_eps = 1e-5f });
    struct arch_lora lora = { .rank = RANK, .alpha = 3, .dropout = dropout };
    struct err       err;

    assert_int_equal(lora_targets_named(arch, "all", &lora.targets, &err), 0);
    if (arch->linear) // keys have none
        lora.targets &= ~((uint64_t)1 << (arch->matrices[0].weight + 1));
    assert_int_equal(lora_set(&g, &lora, &err), 0);
    return g;
}

static void bench_open(struct bench *b, const struct arch *arch, size_t matrix, enum dtype dt,
                       float dropout)
{
    struct trainer_options o = rig_options(config_of(arch, dropout), 1, SEQ, dt, MATMUL_AUTO);
    struct err             err;

    memset(b, 0, sizeof *b);
    if (model_open(&b->m, &o.model, &err))
        fail_msg("%s", err.text);
    b->m.dropping = 1;
    b->m.step = 3;
    b->matrix = matrix;
    b->of = arch_matrix(&b->m.o.config, matrix);
    b->in = arch_matrix_in(&b->m.o.config, matrix);
    b->out = arch_matrix_out(&b->m.o.config, matrix);
    b->size = arch_block_size(&b->m.o.config, arch_adapter_block(&b->m.o.config, 1));
    b->wire = random_new(b->size, 0);
    b->narrow = in_dtype(b->wire, b->size, dt);
    b->grad = random_new(b->size, 1);
    b->before = random_new(b->size, 1);
    b->x = random_new(SEQ * b->in, 2);
    b->y = random_new(SEQ * b->out, 3);
    b->rows = (struct adapter_rows){ .m = &b->m, .w = &b->m.acts.work, .n = SEQ, .padded = SEQ,
                                     .of = { b->narrow, b->grad,
                                             model_dropout_adapter(&b->m, 0, 1) } };
}

static void bench_close(struct bench *b)
{
    model_close(&b->m);
    free(b->wire);
    free(b->grad);
    free(b->before);
    free(b->narrow);
    free(b->x);
    free(b->y);
}

/* ---- the oracle ---- */

/* One tensor's adapter in double precision. */
struct exact { double *x, *h, *dh; float *mask; const float *a, *b; size_t t, in, out, column; };

static struct exact exact_open(const struct bench *b, size_t t)
{
    const struct model_config *g = &b->m.o.config;
    struct exact               e = {
        .t = t, .in = b->in, .out = arch_rows(g, arch_b(t)),
        .a = b->wire + arch_offset(g, arch_a(t)), .b = b->wire + arch_offset(g, arch_b(t)),
        .x = calloc(SEQ * b->in, sizeof(double)),
        .h = calloc(SEQ * RANK, sizeof(double)), .dh = calloc(SEQ * RANK, sizeof(double)),
        .mask = random_new(SEQ * b->in, 4) };
    struct dropout drop = b->rows.of.drop;
    double         scale = (double)lora_scale(&g->lora);

    assert_true(e.x && e.h && e.dh);
    for (size_t i = b->of.weight; i < t; i++)
        e.column += arch_rows(g, i);
    drop.site += t;
    for (size_t i = 0; i < SEQ * b->in; i++)
        e.mask[i] = 1;
    if (drop.p > 0)
        dropout_rows(e.mask, e.mask, SEQ, b->in, 0, &drop);
    for (size_t i = 0; i < SEQ * b->in; i++)
        e.x[i] = (double)b->x[i] * (double)e.mask[i];
    for (size_t i = 0; i < SEQ; i++)
        for (size_t r = 0; r < RANK; r++) {
            double h = 0, dh = 0;

            for (size_t j = 0; j < e.in; j++)
                h += e.x[i * e.in + j] * (double)e.a[r * e.in + j];
            for (size_t j = 0; j < e.out; j++)
                dh += (double)b->y[i * b->out + e.column + j] * (double)e.b[j * RANK + r];
            e.h[i * RANK + r] = scale * h;
            e.dh[i * RANK + r] = scale * dh;
        }
    return e;
}

static void exact_close(struct exact *e)
{
    free(e->x);
    free(e->h);
    free(e->dh);
    free(e->mask);
}

/* sum[i][j] += what the adapter adds to the output, or to the input's gradient. */
static void exact_add(const struct exact *e, double *sum, size_t stride, int back)
{
    for (size_t i = 0; i < SEQ; i++)
        for (size_t j = 0; j < (back ? e->in : e->out); j++) {
            double s = 0;

            for (size_t r = 0; r < RANK; r++)
                s += back ? e->dh[i * RANK + r] * (double)e->a[r * e->in + j]
                          : e->h[i * RANK + r] * (double)e->b[j * RANK + r];
            sum[i * stride + (back ? j : e->column + j)] +=
                s * (back ? (double)e->mask[i * e->in + j] : 1);
        }
}

static void exact_gradient(const struct exact *e, const struct bench *b, double *grad)
{
    double *da = grad + arch_offset(&b->m.o.config, arch_a(e->t)),
           *db = grad + arch_offset(&b->m.o.config, arch_b(e->t));

    for (size_t i = 0; i < SEQ; i++)
        for (size_t r = 0; r < RANK; r++) {
            for (size_t j = 0; j < e->in; j++)
                da[r * e->in + j] += e->dh[i * RANK + r] * e->x[i * e->in + j];
            for (size_t j = 0; j < e->out; j++)
                db[j * RANK + r] += (double)b->y[i * b->out + e->column + j] * e->h[i * RANK + r];
        }
}

static void close_to(const void *a, enum dtype a_dt, const double *b, size_t n, double tolerance,
                     const char *what)
{
    double diff = 0, norm = 0;

    for (size_t i = 0; i < n; i++) {
        diff += pow((double)dtype_get(a, a_dt, i) - b[i], 2);
        norm += pow(b[i], 2);
    }
    if (!(sqrt(diff / norm) <= tolerance))
        fail_msg("%s: off by %g", what, sqrt(diff / norm));
}

static double *doubles_new(const float *from, size_t n)
{
    double *out = malloc(n * sizeof *out);

    assert_non_null(out);
    for (size_t i = 0; i < n; i++)
        out[i] = (double)from[i];
    return out;
}

/* ---- */

static void matrix_test(const struct arch *arch, size_t matrix, enum dtype dt, float dropout)
{
    struct bench b;
    double       tolerance = dt == DT_F32 ? 1e-6 : 8e-3;

    bench_open(&b, arch, matrix, dt, dropout);
    enum dtype out_dt = b.of.out_rounded ? dt : DT_F32, din_dt = b.of.in_rounded ? dt : DT_F32;
    float     *base = random_new(SEQ * b.out, 5), *dbase = random_new(SEQ * b.in, 6);
    void      *x = in_dtype(b.x, SEQ * b.in, dt), *y = in_dtype(b.y, SEQ * b.out, dt),
         *out = in_dtype(base, SEQ * b.out, out_dt), *din = in_dtype(dbase, SEQ * b.in, din_dt);
    double *sum = doubles_new(base, SEQ * b.out), *dsum = doubles_new(dbase, SEQ * b.in),
           *grad = doubles_new(b.before, b.size);

    for (size_t t = b.of.weight; t < b.of.weight + b.of.n; t++) {
        if (!arch_size(&b.m.o.config, arch_a(t)))
            continue;
        struct exact e = exact_open(&b, t);

        exact_add(&e, sum, b.out, 0);
        exact_add(&e, dsum, b.in, 1);
        exact_gradient(&e, &b, grad);
        exact_close(&e);
    }
    adapter_forward(&b.rows, matrix, out, x);
    adapter_back(&b.rows, matrix, din, y);
    adapter_gradient(&b.rows, matrix, x, y);
    close_to(out, out_dt, sum, SEQ * b.out, tolerance, "out");
    close_to(din, din_dt, dsum, SEQ * b.in, tolerance, "din");
    close_to(b.grad, DT_F32, grad, b.size, tolerance, "gradient");
    for (size_t i = 0; arch->linear && i < SEQ && matrix == 0; i++) // keys have no adapter
        for (size_t j = 21; j < 28; j++)
            assert_true(dtype_get(out, out_dt, i * b.out + j) == base[i * b.out + j]);
    free(base);
    free(dbase);
    free(x);
    free(y);
    free(out);
    free(din);
    free(sum);
    free(dsum);
    free(grad);
    bench_close(&b);
}

static void test_products(void **state)
{
    const struct arch *const archs[] = { arch_named("gpt2"), arch_named("llama") };

    (void)state;
    for (size_t f = 0; f < 2; f++)
        for (size_t matrix = 0; matrix < archs[f]->n_matrices; matrix++)
            for (int drops = 0; drops < 2; drops++)
                for (enum dtype dt = DT_F32; dt <= DT_BF16; dt++)
                    if (dt == DT_F32 || rig_runs_bf16(MATMUL_AUTO))
                        matrix_test(archs[f], matrix, dt, drops ? 0.3f : 0);
}

/* Single tokens: a row's bits are those of the row alone, and nearly those of the products. */
static void test_single(void **state)
{
    struct bench     b;
    struct acts_work work;
    double          *sum;

    (void)state;
    bench_open(&b, arch_named("llama"), 0, DT_F32, 0);
    float *out = calloc(SEQ * b.out, sizeof *out), *alone = calloc(b.out, sizeof *alone);
    assert_true(out && alone);
    work = b.m.acts.work;
    work.matvec = calloc(acts_adapter_matvec(&b.m.o.config, SEQ), sizeof(float));
    assert_non_null(work.matvec);
    adapter_forward(&b.rows, 0, out, b.x);
    sum = doubles_new(out, SEQ * b.out);
    memset(out, 0, SEQ * b.out * sizeof *out);
    b.rows.w = &work;
    b.rows.padded = 0;
    adapter_forward(&b.rows, 0, out, b.x);
    close_to(out, DT_F32, sum, SEQ * b.out, 1e-6, "single tokens");
    b.rows.n = 1;
    adapter_forward(&b.rows, 0, alone, b.x + 11 * b.in);
    assert_memory_equal(alone, out + 11 * b.out, b.out * sizeof *out);
    free(out);
    free(alone);
    free(sum);
    free(work.matvec);
    bench_close(&b);
}

/* Masks of tensors, layers, micro-batches and steps are all different. */
static void test_masks(void **state)
{
    struct bench b;
    uint64_t     sites[8];
    size_t       n = 0;

    (void)state;
    bench_open(&b, arch_named("llama"), 0, DT_F32, 0.5f);
    for (size_t i = 0; i < 8; i++) {
        b.m.step = i & 1;
        b.m.o.micros = 2;
        sites[n++] = model_dropout_adapter(&b.m, i >> 1 & 1, 1 + (i >> 2)).site;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            assert_true((sites[i] > sites[k] ? sites[i] - sites[k] : sites[k] - sites[i]) >=
                        ARCH_TENSORS);
    b.m.dropping = 0;
    assert_true(model_dropout_adapter(&b.m, 0, 1).p == 0);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_columns),
                                        cmocka_unit_test(test_products),
                                        cmocka_unit_test(test_single),
                                        cmocka_unit_test(test_masks) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
