/* Layer normalisation and its gradient against double; the same bits for any number of threads, and
 * from apply as from forward. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/elementwise.h"
#include "kernels/layernorm.h"
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
    void      *w, *b;
    double    *d; // x, dout (n, C), then w, b (C)
};

static void case_init(struct norm_case *c, size_t n, size_t C, enum dtype dt, uint64_t *seed)
{
    *c = (struct norm_case){
        .n = n, .C = C, .dt = dt,
        .x = guard_alloc(n * C * 4), .dout = guard_alloc(n * C * 4),
        .w = guard_alloc(C * dtype_bytes(dt)), .b = guard_alloc(C * dtype_bytes(dt)),
        .d = malloc((2 * n * C + 2 * C) * sizeof(double)),
    };
    ref_fill(c->x, n * C, -2.0f, 3.0f, seed);
    ref_fill(c->dout, n * C, -1.0f, 1.0f, seed);
    for (size_t j = 0; j < C; j++) {
        float wb[2];

        ref_fill(wb, 2, 0.5f, 1.5f, seed);
        dtype_put(c->w, dt, j, wb[0]);
        dtype_put(c->b, dt, j, wb[1] - 1.0f);
        c->d[2 * n * C + j] = (double)dtype_get(c->w, dt, j);
        c->d[2 * n * C + C + j] = (double)dtype_get(c->b, dt, j);
    }
    for (size_t i = 0; i < n * C; i++) {
        c->d[i] = (double)c->x[i];
        c->d[n * C + i] = (double)c->dout[i];
    }
}

static void case_release(struct norm_case *c)
{
    guard_free(c->x);
    guard_free(c->dout);
    guard_free(c->w);
    guard_free(c->b);
    free(c->d);
}

static struct layernorm norm_of(const struct norm_case *c, float *x, float *mean, float *rstd)
{
    return (struct layernorm){ .n = c->n, .C = c->C, .dt = c->dt, .x = x, .w = c->w, .b = c->b,
                               .mean = mean, .rstd = rstd, .eps = (float)eps };
}

/* x + dout normalised in one pass: the bits of the sum taken first. */
static void check_residual(const struct norm_case *c)
{
    size_t n = c->n, C = c->C, bytes = n * C * dtype_bytes(c->dt);
    float *sum = guard_alloc(n * C * 4), *want_sum = malloc(n * C * 4), *stats = malloc(4 * n * 4);
    void  *out = guard_alloc(bytes), *want = guard_alloc(bytes);
    struct layernorm summed = norm_of(c, want_sum, stats, stats + n),
                     one = norm_of(c, sum, stats + 2 * n, stats + 3 * n);

    for (size_t i = 0; i < n * C; i++)
        want_sum[i] = c->x[i] + c->dout[i];
    layernorm_forward(want, &summed);
    layernorm_residual(out, c->x, c->dout, &one);
    assert_memory_equal(sum, want_sum, n * C * 4);
    assert_memory_equal(stats + 2 * n, stats, 2 * n * 4);
    assert_memory_equal(out, want, bytes);
    guard_free(sum);
    guard_free(out);
    guard_free(want);
    free(want_sum);
    free(stats);
}

static void check_forward(const struct norm_case *c)
{
    size_t  n = c->n, C = c->C, bytes = n * C * dtype_bytes(c->dt);
    void   *out = guard_alloc(bytes), *again = guard_alloc(bytes);
    float  *mean = guard_alloc(n * 4), *rstd = guard_alloc(n * 4), *wide = malloc(n * C * 4);
    double *want = malloc((n * C + 2 * n) * sizeof *want);
    struct layernorm l = norm_of(c, c->x, mean, rstd);

    ref_layernorm(want, want + n * C, c->d, c->d + 2 * n * C, c->d + 2 * n * C + C, n, C, eps);
    layernorm_forward(out, &l);
    for (size_t i = 0; i < n * C; i++)
        wide[i] = dtype_get(out, c->dt, i);
    assert_true(ref_excess(wide, want, n * C, 1e-5, c->dt == DT_F32 ? 1e-5 : 1.0 / 256) <= 1.0);
    assert_true(ref_excess(mean, want + n * C, n, 1e-6, 1e-6) <= 1.0);
    assert_true(ref_excess(rstd, want + n * C + n, n, 1e-6, 1e-5) <= 1.0);
    layernorm_apply(again, &l);
    assert_memory_equal(out, again, bytes);
    guard_free(out);
    guard_free(again);
    guard_free(mean);
    guard_free(rstd);
    free(wide);
    free(want);
}

/* All that backward adds to, in one array: dx (n, C), dw, db (C). */
static void run_backward(float *sums, const struct norm_case *c, const struct layernorm *l)
{
    size_t n = c->n, C = c->C;
    float *dx = guard_alloc(n * C * 4), *dw = guard_alloc(C * 4), *db = guard_alloc(C * 4);
    void  *scratch = guard_alloc(colsum_scratch(n, 3 * C));

    memcpy(dx, sums, n * C * 4);
    memcpy(dw, sums + n * C, C * 4);
    memcpy(db, sums + n * C + C, C * 4);
    layernorm_backward(&(struct layernorm_backward){
        .l = l, .dout = c->dout, .dx = dx, .dw = dw, .db = db, .scratch = scratch });
    memcpy(sums, dx, n * C * 4);
    memcpy(sums + n * C, dw, C * 4);
    memcpy(sums + n * C + C, db, C * 4);
    guard_free(dx);
    guard_free(dw);
    guard_free(db);
    guard_free(scratch);
}

/* What goes along in the pass over dx is what further passes make: dx written over what stands
 * there, its sums, its rounding. */
static void check_along(const struct norm_case *c, const struct layernorm *l)
{
    size_t n = c->n, C = c->C;
    float *dx = calloc(n * C, 4), *dx_one = guard_alloc(n * C * 4), *sums = guard_alloc(C * 4),
          *sums_one = guard_alloc(C * 4), *dwb = calloc(2 * C, 4);
    bf16  *narrow = guard_alloc(n * C * 2), *narrow_one = guard_alloc(n * C * 2);
    void  *scratch = guard_alloc(colsum_scratch(n, 3 * C));
    struct layernorm_backward b = { .l = l, .dout = c->dout, .dx = dx, .dw = dwb, .db = dwb + C,
                                    .scratch = scratch };

    layernorm_backward(&b);
    memset(sums, 0, C * 4);
    memset(sums_one, 0, C * 4);
    memset(dx_one, 0x7f, n * C * 4);
    colsum_add(sums, narrow, dx, DT_F32, n, C, scratch);
    b.dx = dx_one;
    b.fresh = 1;
    b.dx_sums = sums_one;
    b.narrowed = narrow_one;
    layernorm_backward(&b);
    assert_memory_equal(dx, dx_one, n * C * 4);
    assert_memory_equal(sums, sums_one, C * 4);
    assert_memory_equal(narrow, narrow_one, n * C * 2);
    free(dx);
    free(dwb);
    guard_free(dx_one);
    guard_free(sums);
    guard_free(sums_one);
    guard_free(narrow);
    guard_free(narrow_one);
    guard_free(scratch);
}

static void check_backward(const struct norm_case *c, uint64_t *seed)
{
    size_t  n = c->n, C = c->C, all = n * C + 2 * C;
    float  *sums = malloc(all * 4), *again = malloc(all * 4), *mean = malloc(n * 4),
          *rstd = malloc(n * 4);
    float  *out = malloc(n * C * 4);
    double *want = malloc(all * sizeof *want);
    struct layernorm l = norm_of(c, c->x, mean, rstd);

    ref_fill(sums, all, -1.0f, 1.0f, seed);
    memcpy(again, sums, all * 4);
    ref_layernorm_backward(want, want + n * C, c->d + n * C, c->d, c->d + 2 * n * C, n, C, eps);
    for (size_t i = 0; i < all; i++)
        want[i] += (double)sums[i];
    layernorm_forward(out, &l);
    omp_set_num_threads(1);
    run_backward(sums, c, &l);
    omp_set_num_threads(3);
    run_backward(again, c, &l);
    assert_true(ref_excess(sums, want, all, C < 4 ? 1e-3 : 3e-5, 1e-5) <= 1.0);
    assert_memory_equal(sums, again, all * 4);
    check_along(c, &l);
    free(sums);
    free(again);
    free(mean);
    free(rstd);
    free(out);
    free(want);
}

static void test_against_double(void **state)
{
    static const size_t ns[] = { 1, 3, 31, 32, 33, 70 }, Cs[] = { 1, 2, 7, 63, 64, 65, 300, 768 };
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

/* A large common offset: the variance is taken about the mean, so little is lost. */
static void test_offset(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_double),
        cmocka_unit_test(test_offset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
