/* RMSNorm and its gradient against double; the same bits for any number of threads, and from apply
 * as from forward. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/elementwise.h"
#include "kernels/rmsnorm.h"
#include "tests/ref.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>

static const double eps = 1e-5;

/* Inputs of one case in float, and as double for the oracle. */
struct norm_case {
    size_t     n, C;
    enum dtype dt;
    float     *x, *dout;
    void      *w;
    double    *xd, *doutd, *wd;
};

static void case_init(struct norm_case *c, size_t n, size_t C, enum dtype dt, uint64_t *seed)
{
    *c = (struct norm_case){
        .n = n, .C = C, .dt = dt, .x = guard_alloc(n * C * 4), .dout = guard_alloc(n * C * 4),
        .w = guard_alloc(C * dtype_bytes(dt)), .xd = malloc((2 * n + 1) * C * sizeof(double)),
    };
    c->doutd = c->xd + n * C;
    c->wd = c->doutd + n * C;
    ref_fill(c->x, n * C, -2.0f, 3.0f, seed);
    ref_fill(c->dout, n * C, -1.0f, 1.0f, seed);
    for (size_t j = 0; j < C; j++) {
        float w;

        ref_fill(&w, 1, 0.5f, 1.5f, seed);
        dtype_put(c->w, dt, j, w);
        c->wd[j] = (double)dtype_get(c->w, dt, j);
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
    free(c->xd);
}

static struct rmsnorm norm_of(const struct norm_case *c, float *x, float *rstd)
{
    return (struct rmsnorm){ .n = c->n, .C = c->C, .dt = c->dt, .x = x, .w = c->w, .rstd = rstd,
                             .eps = (float)eps };
}

/* x + dout normalised in one pass: the bits of the sum taken first. */
static void check_residual(const struct norm_case *c)
{
    size_t n = c->n, C = c->C, bytes = n * C * dtype_bytes(c->dt);
    float *sum = guard_alloc(n * C * 4), *want_sum = malloc(n * C * 4), *rstd = malloc(2 * n * 4);
    void  *out = guard_alloc(bytes), *want = guard_alloc(bytes);
    struct rmsnorm summed = norm_of(c, want_sum, rstd), one = norm_of(c, sum, rstd + n);

    for (size_t i = 0; i < n * C; i++)
        want_sum[i] = c->x[i] + c->dout[i];
    rmsnorm_forward(want, &summed);
    rmsnorm_residual(out, c->x, c->dout, &one);
    assert_memory_equal(sum, want_sum, n * C * 4);
    assert_memory_equal(rstd + n, rstd, n * 4);
    assert_memory_equal(out, want, bytes);
    guard_free(sum);
    guard_free(out);
    guard_free(want);
    free(want_sum);
    free(rstd);
}

static void check_forward(const struct norm_case *c)
{
    size_t  n = c->n, C = c->C, bytes = n * C * dtype_bytes(c->dt);
    void   *out = guard_alloc(bytes), *again = guard_alloc(bytes);
    float  *rstd = guard_alloc(n * 4), *wide = malloc(n * C * 4);
    double *want = malloc((n * C + n) * sizeof *want);
    struct rmsnorm r = norm_of(c, c->x, rstd);

    ref_rmsnorm(want, want + n * C, c->xd, c->wd, n, C, eps);
    omp_set_num_threads(1);
    rmsnorm_forward(out, &r);
    for (size_t i = 0; i < n * C; i++)
        wide[i] = dtype_get(out, c->dt, i);
    assert_true(ref_excess(wide, want, n * C, 1e-6, c->dt == DT_F32 ? 1e-6 : 1.0 / 256) <= 1.0);
    assert_true(ref_excess(rstd, want + n * C, n, 0.0, 1e-6) <= 1.0);
    rmsnorm_apply(again, &r);
    assert_memory_equal(out, again, bytes);
    omp_set_num_threads(3);
    memset(again, 0, bytes);
    rmsnorm_forward(again, &r);
    assert_memory_equal(out, again, bytes);
    guard_free(out);
    guard_free(again);
    guard_free(rstd);
    free(wide);
    free(want);
}

/* All that backward adds to, in one array: dx (n, C), dw (C). */
static void run_backward(float *sums, const struct norm_case *c, const struct rmsnorm *r)
{
    size_t n = c->n, C = c->C;
    float *dx = guard_alloc(n * C * 4), *dw = guard_alloc(C * 4);
    void  *scratch = guard_alloc(colsum_scratch(n, C));

    memcpy(dx, sums, n * C * 4);
    memcpy(dw, sums + n * C, C * 4);
    rmsnorm_backward(&(struct rmsnorm_backward){ .r = r, .dout = c->dout, .dx = dx, .dw = dw,
                                                 .scratch = scratch });
    memcpy(sums, dx, n * C * 4);
    memcpy(sums + n * C, dw, C * 4);
    guard_free(dx);
    guard_free(dw);
    guard_free(scratch);
}

/* dx written over what stands there is what adding to zeros makes; its rounding is convert's. */
static void check_along(const struct norm_case *c, const struct rmsnorm *r)
{
    size_t n = c->n, C = c->C;
    float *dx = calloc(n * C, 4), *dx_one = guard_alloc(n * C * 4), *dw = calloc(2 * C, 4);
    bf16  *narrow = malloc(n * C * 2), *narrow_one = guard_alloc(n * C * 2);
    void  *scratch = guard_alloc(colsum_scratch(n, C));
    struct rmsnorm_backward b = { .r = r, .dout = c->dout, .dx = dx, .dw = dw,
                                  .scratch = scratch };

    rmsnorm_backward(&b);
    convert(narrow, DT_BF16, dx, DT_F32, n * C);
    memset(dx_one, 0x7f, n * C * 4);
    b.dx = dx_one;
    b.dw = dw + C;
    b.fresh = 1;
    b.narrowed = narrow_one;
    rmsnorm_backward(&b);
    assert_memory_equal(dx, dx_one, n * C * 4);
    assert_memory_equal(dw, dw + C, C * 4);
    assert_memory_equal(narrow, narrow_one, n * C * 2);
    free(dx);
    free(dw);
    free(narrow);
    guard_free(dx_one);
    guard_free(narrow_one);
    guard_free(scratch);
}

static void check_backward(const struct norm_case *c, uint64_t *seed)
{
    size_t  n = c->n, C = c->C, all = n * C + C;
    float  *sums = malloc(all * 4), *again = malloc(all * 4), *rstd = malloc(n * 4),
          *out = malloc(n * C * 4);
    double *want = malloc(all * sizeof *want);
    struct rmsnorm r = norm_of(c, c->x, rstd);

    ref_fill(sums, all, -1.0f, 1.0f, seed);
    memcpy(again, sums, all * 4);
    ref_rmsnorm_backward(want, want + n * C, c->doutd, c->xd, c->wd, n, C, eps);
    for (size_t i = 0; i < all; i++)
        want[i] += (double)sums[i];
    rmsnorm_forward(out, &r);
    omp_set_num_threads(1);
    run_backward(sums, c, &r);
    omp_set_num_threads(3);
    run_backward(again, c, &r);
    assert_true(ref_excess(sums, want, all, C < 4 ? 1e-4 : 1e-5, 1e-5) <= 1.0);
    assert_memory_equal(sums, again, all * 4);
    check_along(c, &r);
    free(sums);
    free(again);
    free(rstd);
    free(out);
    free(want);
}

static void test_against_double(void **state)
{
    static const size_t ns[] = { 1, 3, 31, 32, 33, 70 }, Cs[] = { 1, 2, 7, 63, 64, 65, 300 };
    uint64_t            seed = 1;

    (void)state;
    for (size_t i = 0; i < sizeof ns / sizeof ns[0]; i++)
        for (size_t j = 0; j < sizeof Cs / sizeof Cs[0]; j++)
            for (int dt = DT_F32; dt <= DT_BF16; dt++) {
                struct norm_case c;

                case_init(&c, ns[i], Cs[j], (enum dtype)dt, &seed);
                check_forward(&c);
                check_residual(&c);
                check_backward(&c, &seed);
                case_release(&c);
            }
}

/* eps counts where a row is as small as it: rows of zeros give zeros, and a slope of w / sqrt(eps);
 * a row of sqrt(eps) comes out as w / sqrt(2). */
static void test_small(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_double),
        cmocka_unit_test(test_small),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
