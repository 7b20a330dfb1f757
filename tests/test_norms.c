/* Layer normalisation and RMSNorm, and their gradients, against double; the same bits for any
 * number of threads, from apply as from forward, and from what goes along in a pass as from a pass
 * of its own. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/elementwise.h"
#include "kernels/rows/layernorm.h"
#include "kernels/rows/rmsnorm.h"
#include "tests/ref.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>

static const double eps = 1e-5;

/* Inputs of one case in float, and as double for the oracle. */
struct norm_case {
    size_t     n, C;
    enum dtype dt;
    float     *x, *dout; // (n, C)
    void      *w, *b;    // (C) dt
    float      plus;     // of RMSNorm; it is in wd
    double    *xd, *doutd, *wd, *bd;
};

/* What backward is given beside the case; db: layernorm's only. */
struct grads {
    float *dx, *dw, *db, *dx_sums;
    bf16  *narrowed;
    void  *out;
    int    fresh;
};

/* Both norms, called alike. stats: arrays of n that forward saves; params: of C, w, perhaps b. */
struct norm {
    const char *name;
    size_t      stats, params;
    double      tol, tol_dx, tol_dx_narrow; // of values; of gradients; of those of a few columns
    void (*forward)(void *out, const struct norm_case *c, float *stats);
    void (*residual)(void *out, const struct norm_case *c, float *sum, float *stats); // x + dout
    void (*backward)(const struct norm_case *c, float *stats, const struct grads *g);
    void (*oracle)(double *out, double *stats, const struct norm_case *c);
    void (*oracle_backward)(double *dx, double *dparams, const struct norm_case *c);
    float plus;
};

/* ---- layernorm ---- */

static struct layernorm layer_of(const struct norm_case *c, float *x, float *stats)
{
    return (struct layernorm){ .n = c->n, .C = c->C, .dt = c->dt, .x = x, .w = c->w, .b = c->b,
                               .mean = stats, .rstd = stats + c->n, .eps = (float)eps };
}

static void layer_forward(void *out, const struct norm_case *c, float *stats)
{
    struct layernorm l = layer_of(c, c->x, stats);

    layernorm_forward(out, &l);
}

static void layer_residual(void *out, const struct norm_case *c, float *sum, float *stats)
{
    struct layernorm l = layer_of(c, sum, stats);

    layernorm_residual(out, c->x, c->dout, &l);
}

static void layer_backward(const struct norm_case *c, float *stats, const struct grads *g)
{
    struct layernorm l = layer_of(c, c->x, stats);
    void            *scratch = guard_alloc(colsum_scratch(c->n, 3 * c->C));

    layernorm_backward(&(struct layernorm_backward){
        .l = &l, .dout = c->dout, .dx = g->dx, .fresh = g->fresh, .dw = g->dw, .db = g->db,
        .dx_sums = g->dx_sums, .narrowed = g->narrowed, .out = g->out, .scratch = scratch });
    guard_free(scratch);
}

static void layer_oracle(double *out, double *stats, const struct norm_case *c)
{
    ref_layernorm(out, stats, c->xd, c->wd, c->bd, c->n, c->C, eps);
}

static void layer_oracle_backward(double *dx, double *dparams, const struct norm_case *c)
{
    ref_layernorm_backward(dx, dparams, c->doutd, c->xd, c->wd, c->n, c->C, eps);
}

/* ---- RMSNorm ---- */

static struct rmsnorm rms_of(const struct norm_case *c, float *x, float *stats)
{
    return (struct rmsnorm){ .n = c->n, .C = c->C, .dt = c->dt, .x = x, .w = c->w, .rstd = stats,
                             .eps = (float)eps, .plus = c->plus };
}

static void rms_forward(void *out, const struct norm_case *c, float *stats)
{
    struct rmsnorm r = rms_of(c, c->x, stats);

    rmsnorm_forward(out, &r);
}

static void rms_residual(void *out, const struct norm_case *c, float *sum, float *stats)
{
    struct rmsnorm r = rms_of(c, sum, stats);

    rmsnorm_residual(out, c->x, c->dout, &r);
}

/* It takes no sums of dx: those are a pass of their own here. */
static void rms_backward(const struct norm_case *c, float *stats, const struct grads *g)
{
    struct rmsnorm r = rms_of(c, c->x, stats);
    void          *scratch = guard_alloc(colsum_scratch(c->n, c->C));

    rmsnorm_backward(&(struct rmsnorm_backward){
        .r = &r, .dout = c->dout, .dx = g->dx, .fresh = g->fresh, .dw = g->dw,
        .narrowed = g->narrowed, .out = g->out, .scratch = scratch });
    if (g->dx_sums)
        colsum_add(g->dx_sums, NULL, g->dx, DT_F32, c->n, c->C, scratch);
    guard_free(scratch);
}

static void rms_oracle(double *out, double *stats, const struct norm_case *c)
{
    ref_rmsnorm(out, stats, c->xd, c->wd, c->n, c->C, eps);
}

static void rms_oracle_backward(double *dx, double *dparams, const struct norm_case *c)
{
    ref_rmsnorm_backward(dx, dparams, c->doutd, c->xd, c->wd, c->n, c->C, eps);
}

static const struct norm norms[] = {
    { "layernorm", 2, 2, 1e-5, 3e-5, 1e-3, layer_forward, layer_residual,
      layer_backward, layer_oracle, layer_oracle_backward, 0 },
    { "RMSNorm", 1, 1, 1e-6, 1e-5, 1e-4, rms_forward, rms_residual, rms_backward,
      rms_oracle, rms_oracle_backward, 0 },
    { "RMSNorm of weights less 1", 1, 1, 1e-6, 1e-5, 1e-4, rms_forward, rms_residual,
      rms_backward, rms_oracle, rms_oracle_backward, 1 },
};

/* ---- both ---- */

static void case_init(struct norm_case *c, size_t n, size_t C, enum dtype dt, uint64_t *seed)
{
    *c = (struct norm_case){
        .n = n, .C = C, .dt = dt,
        .x = guard_alloc(n * C * 4), .dout = guard_alloc(n * C * 4),
        .w = guard_alloc(C * dtype_bytes(dt)), .b = guard_alloc(C * dtype_bytes(dt)),
        .xd = malloc((2 * n + 2) * C * sizeof(double)),
    };
    c->doutd = c->xd + n * C;
    c->wd = c->doutd + n * C;
    c->bd = c->wd + C;
    ref_fill(c->x, n * C, -2.0f, 3.0f, seed);
    ref_fill(c->dout, n * C, -1.0f, 1.0f, seed);
    for (size_t j = 0; j < C; j++) {
        float wb[2];

        ref_fill(wb, 2, 0.5f, 1.5f, seed);
        dtype_put(c->w, dt, j, wb[0]);
        dtype_put(c->b, dt, j, wb[1] - 1.0f);
        c->wd[j] = (double)dtype_get(c->w, dt, j);
        c->bd[j] = (double)dtype_get(c->b, dt, j);
    }
    for (size_t i = 0; i < n * C; i++) {
        c->xd[i] = (double)c->x[i];
        c->doutd[i] = (double)c->dout[i];
    }
}

static void case_release(struct norm_case *c)
{
    guard_free(c->x);
    guard_free(c->dout);
    guard_free(c->w);
    guard_free(c->b);
    free(c->xd);
}

/* x + dout normalised in one pass: the bits of the sum taken first. */
static void check_residual(const struct norm *f, const struct norm_case *c)
{
    size_t n = c->n, C = c->C, bytes = n * C * dtype_bytes(c->dt), saved = f->stats * n;
    float *sum = guard_alloc(n * C * 4), *stats = malloc(2 * saved * 4);
    void  *out = guard_alloc(bytes), *want = guard_alloc(bytes);
    struct norm_case summed = *c;

    summed.x = malloc(n * C * 4);
    for (size_t i = 0; i < n * C; i++)
        summed.x[i] = c->x[i] + c->dout[i];
    f->forward(want, &summed, stats);
    f->residual(out, c, sum, stats + saved);
    assert_memory_equal(sum, summed.x, n * C * 4);
    assert_memory_equal(stats + saved, stats, saved * 4);
    assert_memory_equal(out, want, bytes);
    guard_free(sum);
    guard_free(out);
    guard_free(want);
    free(summed.x);
    free(stats);
}

static void check_forward(const struct norm *f, const struct norm_case *c)
{
    size_t  n = c->n, C = c->C, bytes = n * C * dtype_bytes(c->dt);
    void   *out = guard_alloc(bytes), *again = guard_alloc(bytes);
    float  *stats = guard_alloc(f->stats * n * 4), *wide = malloc(n * C * 4);
    double *want = malloc((n * C + f->stats * n) * sizeof *want);
    double  rounding = c->dt == DT_F32 ? f->tol : 1.0 / 256;

    f->oracle(want, want + n * C, c);
    omp_set_num_threads(1);
    f->forward(out, c, stats);
    for (size_t i = 0; i < n * C; i++)
        wide[i] = dtype_get(out, c->dt, i);
    assert_true(ref_excess(wide, want, n * C, f->tol, rounding) <= 1.0);
    assert_true(ref_excess(stats, want + n * C, f->stats * n, 1e-6, f->tol) <= 1.0);
    omp_set_num_threads(3);
    memset(again, 0, bytes);
    f->forward(again, c, stats);
    assert_memory_equal(out, again, bytes);
    guard_free(out);
    guard_free(again);
    guard_free(stats);
    free(wide);
    free(want);
}

/* All that backward adds to, in one array: dx (n, C), dw, perhaps db (C). */
static void run_backward(float *sums, const struct norm *f, const struct norm_case *c, float *stats)
{
    size_t n = c->n, C = c->C;
    struct grads g = { .dx = guard_alloc(n * C * 4), .dw = guard_alloc(C * 4),
                       .db = guard_alloc(C * 4) };

    memcpy(g.dx, sums, n * C * 4);
    memcpy(g.dw, sums + n * C, C * 4);
    memcpy(g.db, sums + (n + f->params - 1) * C, C * 4);
    f->backward(c, stats, &g);
    memcpy(sums, g.dx, n * C * 4);
    if (f->params > 1)
        memcpy(sums + n * C + C, g.db, C * 4);
    memcpy(sums + n * C, g.dw, C * 4);
    guard_free(g.dx);
    guard_free(g.dw);
    guard_free(g.db);
}

/* What goes along in the pass over dx is what further passes make: dx written over what stands
 * there, its sums, its rounding; and the rows that forward wrote, which are in `out`. */
static void check_along(const struct norm *f, const struct norm_case *c, float *stats,
                        const void *out)
{
    size_t n = c->n, C = c->C, bytes = n * C * dtype_bytes(c->dt);
    float *sums = guard_alloc(C * 4), *params = calloc(4 * C, 4);
    bf16  *narrow = guard_alloc(n * C * 2);
    void  *scratch = guard_alloc(colsum_scratch(n, C));
    struct grads plain = { .dx = calloc(n * C, 4), .dw = params, .db = params + C };
    struct grads along = { .dx = guard_alloc(n * C * 4), .dw = params + 2 * C,
                           .db = params + 3 * C, .dx_sums = guard_alloc(C * 4), .fresh = 1,
                           .narrowed = guard_alloc(n * C * 2), .out = guard_alloc(bytes) };

    f->backward(c, stats, &plain);
    memset(along.dx, 0x7f, n * C * 4);
    f->backward(c, stats, &along);
    colsum_add(sums, narrow, plain.dx, DT_F32, n, C, scratch);
    assert_memory_equal(plain.dx, along.dx, n * C * 4);
    assert_memory_equal(params, params + 2 * C, 2 * C * 4);
    assert_memory_equal(sums, along.dx_sums, C * 4);
    assert_memory_equal(narrow, along.narrowed, n * C * 2);
    assert_memory_equal(out, along.out, bytes);
    free(params);
    free(plain.dx);
    guard_free(sums);
    guard_free(narrow);
    guard_free(scratch);
    guard_free(along.dx);
    guard_free(along.dx_sums);
    guard_free(along.narrowed);
    guard_free(along.out);
}

static void check_backward(const struct norm *f, const struct norm_case *c, uint64_t *seed)
{
    size_t  n = c->n, C = c->C, all = (n + f->params) * C;
    float  *sums = malloc(all * 4), *again = malloc(all * 4), *stats = malloc(f->stats * n * 4);
    float  *out = malloc(n * C * 4);
    double *want = malloc(all * sizeof *want);

    ref_fill(sums, all, -1.0f, 1.0f, seed);
    memcpy(again, sums, all * 4);
    f->oracle_backward(want, want + n * C, c);
    for (size_t i = 0; i < all; i++)
        want[i] += (double)sums[i];
    f->forward(out, c, stats);
    omp_set_num_threads(1);
    run_backward(sums, f, c, stats);
    omp_set_num_threads(3);
    run_backward(again, f, c, stats);
    if (!(ref_excess(sums, want, all, C < 4 ? f->tol_dx_narrow : f->tol_dx, 1e-5) <= 1.0))
        fail_msg("%s backward, %zu x %zu", f->name, n, C);
    assert_memory_equal(sums, again, all * 4);
    check_along(f, c, stats, out);
    free(sums);
    free(again);
    free(stats);
    free(out);
    free(want);
}

static void test_against_double(void **state)
{
    static const size_t ns[] = { 1, 3, 31, 32, 33, 70 }, Cs[] = { 1, 2, 7, 63, 64, 65, 300, 768 };
    uint64_t            seed = 1;

    (void)state;
    for (size_t k = 0; k < sizeof norms / sizeof *norms; k++)
        for (size_t i = 0; i < sizeof ns / sizeof ns[0]; i++)
            for (size_t j = 0; j < sizeof Cs / sizeof Cs[0]; j++)
                for (int dt = DT_F32; dt <= DT_BF16; dt++) {
                    struct norm_case c;

                    case_init(&c, ns[i], Cs[j], (enum dtype)dt, &seed);
                    c.plus = norms[k].plus;
                    for (size_t col = 0; col < c.C; col++)
                        c.wd[col] += (double)c.plus;
                    check_forward(&norms[k], &c);
                    check_residual(&norms[k], &c);
                    check_backward(&norms[k], &c, &seed);
                    case_release(&c);
                }
}

/* ---- each ---- */

/* Post-norm: the rows unrounded, beside the rounded ones or alone, from all three. */
static void check_wide(size_t n, size_t C, enum dtype dt, uint64_t *seed)
{
    size_t  bytes = n * C * dtype_bytes(dt);
    float  *stats = malloc(2 * n * 4), *wide = guard_alloc(n * C * 4), *sum = malloc(n * C * 4);
    void   *plain = malloc(bytes), *out = guard_alloc(bytes);
    double *want = malloc((n * C + 2 * n) * sizeof *want);
    struct norm_case c;

    case_init(&c, n, C, dt, seed);
    struct layernorm l = layer_of(&c, c.x, stats);
    layer_oracle(want, want + n * C, &c);
    layernorm_forward(plain, &l);
    l.wide = wide;
    layernorm_forward(out, &l);
    assert_memory_equal(out, plain, bytes);
    assert_true(ref_excess(wide, want, n * C, 1e-5, 1e-5) <= 1.0);
    for (int both = 0; both < 2; both++) {
        memset(wide, 0x7f, n * C * 4);
        memset(out, 0x7f, bytes);
        layernorm_apply(both ? out : NULL, &l);
        assert_true(ref_excess(wide, want, n * C, 1e-5, 1e-5) <= 1.0);
        if (both)
            assert_memory_equal(out, plain, bytes);
    }
    layer_residual(plain, &c, sum, stats);
    l.x = sum;
    layernorm_residual(out, c.x, c.dout, &l);
    assert_memory_equal(out, plain, bytes);
    convert(plain, dt, wide, DT_F32, n * C);
    assert_memory_equal(out, plain, bytes);
    case_release(&c);
    free(stats);
    free(sum);
    free(plain);
    free(want);
    guard_free(wide);
    guard_free(out);
}

static void test_layernorm_wide(void **state)
{
    uint64_t seed = 4;

    (void)state;
    for (int dt = DT_F32; dt <= DT_BF16; dt++) {
        check_wide(1, 1, (enum dtype)dt, &seed);
        check_wide(35, 77, (enum dtype)dt, &seed);
        check_wide(64, 300, (enum dtype)dt, &seed);
    }
}

/* A large common offset: the variance is taken about the mean, so little is lost. */
static void test_layernorm_offset(void **state)
{
    enum { C = 512 };
    float    x[C], w[C], b[C] = {0}, out[C], mean, rstd;
    double   xd[C], wd[C], bd[C] = {0}, want[C], stats[2];
    uint64_t seed = 2;

    (void)state;
    ref_fill(x, C, 1000.0f, 1001.0f, &seed);
    for (int j = 0; j < C; j++) {
        w[j] = 1.0f;
        wd[j] = 1.0;
        xd[j] = (double)x[j];
    }
    ref_layernorm(want, stats, xd, wd, bd, 1, C, eps);
    layernorm_forward(out, &(struct layernorm){ .n = 1, .C = C, .dt = DT_F32, .x = x, .w = w,
                                                .b = b, .mean = &mean, .rstd = &rstd,
                                                .eps = (float)eps });
    assert_true(ref_excess(out, want, C, 1e-3, 0.0) <= 1.0);
}

/* eps counts where a row is as small as it: rows of zeros give zeros, and a slope of w / sqrt(eps);
 * a row of sqrt(eps) comes out as w / sqrt(2). */
static void test_rmsnorm_small(void **state)
{
    enum { C = 70 };
    float x[2 * C] = { 0 }, w[C], out[2 * C], rstd[2], dout[2 * C], dx[2 * C], dw[C] = { 0 },
          scratch[C];
    struct rmsnorm r = { .n = 2, .C = C, .dt = DT_F32, .x = x, .w = w, .rstd = rstd, .eps = 1e-4f };

    (void)state;
    for (int j = 0; j < C; j++) {
        x[C + j] = 0.01f;
        w[j] = (float)(j + 1);
        dout[j] = dout[C + j] = 1.0f;
    }
    rmsnorm_forward(out, &r);
    rmsnorm_backward(&(struct rmsnorm_backward){ .r = &r, .dout = dout, .dx = dx, .fresh = 1,
                                                 .dw = dw, .scratch = scratch });
    for (int j = 0; j < C; j++) {
        assert_true(out[j] == 0.0f);
        assert_true(fabsf(dx[j] - 100.0f * w[j]) <= 1e-3f * w[j]);
        assert_true(fabsf(out[C + j] - w[j] * sqrtf(0.5f)) <= 1e-5f * w[j]);
        assert_true(fabsf(dw[j] - sqrtf(0.5f)) <= 1e-5f);
    }
}

/* Behind a projection: the unrounded rows are added to others. */
static void test_rmsnorm_add(void **state)
{
    static const size_t Cs[] = { 1, 7, 64, 77, 300 };
    uint64_t            seed = 6;

    (void)state;
    for (size_t k = 0; k < 2 * sizeof Cs / sizeof *Cs; k++) {
        struct norm_case c;
        size_t           n = 35, C = Cs[k / 2];

        case_init(&c, n, C, k % 2 ? DT_BF16 : DT_F32, &seed);
        float         *out = guard_alloc(n * C * 4), *rstd = guard_alloc(n * 4);
        double        *want = malloc((n * C + n) * sizeof *want);
        struct rmsnorm r = rms_of(&c, c.x, rstd);

        rms_oracle(want, want + n * C, &c);
        for (size_t i = 0; i < n * C; i++)
            want[i] += c.doutd[i];
        omp_set_num_threads(1);
        rmsnorm_add(out, c.dout, &r);
        assert_true(ref_excess(out, want, n * C, 1e-5, 1e-6) <= 1.0);
        assert_true(ref_excess(rstd, want + n * C, n, 0.0, 1e-6) <= 1.0);
        omp_set_num_threads(3);
        rmsnorm_add(c.dout, c.dout, &r);
        assert_memory_equal(c.dout, out, n * C * 4);
        guard_free(out);
        guard_free(rstd);
        free(want);
        case_release(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_double),
        cmocka_unit_test(test_layernorm_wide),
        cmocka_unit_test(test_layernorm_offset),
        cmocka_unit_test(test_rmsnorm_small),
        cmocka_unit_test(test_rmsnorm_add),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
