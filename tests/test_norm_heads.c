/* RMSNorm of heads inside wider rows, and its gradient, against double; the same bits for any
 * number of threads, and in place; what is between the heads stays. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/elementwise.h"
#include "kernels/rows/rmsnorm.h"
#include "tests/ref.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>

static const double eps = 1e-5;

/* Rows of heads with gaps: x and d of dt, and both dense, (n H, D), in double. */
struct heads_case {
    struct rmsnorm_heads r;
    size_t  all;        // elements from the first to the last
    void   *x, *d, *w;
    double *xd, *dd, *wd;
};

static void heads_init(struct heads_case *c, uint64_t *seed)
{
    const struct rmsnorm_heads *r = &c->r;
    size_t                      e = dtype_bytes(r->dt), rows = r->n * r->H;
    float                       v[2];

    c->all = (r->n - 1) * r->stride + r->H * r->D;
    c->x = guard_alloc(c->all * e);
    c->d = guard_alloc(c->all * e);
    c->w = guard_alloc(r->D * e);
    c->xd = malloc((2 * rows + 1) * r->D * sizeof(double));
    c->dd = c->xd + rows * r->D;
    c->wd = c->dd + rows * r->D;
    for (size_t i = 0; i < c->all; i++) {
        ref_fill(v, 2, -1.5f, 2.0f, seed);
        dtype_put(c->x, r->dt, i, v[0]);
        dtype_put(c->d, r->dt, i, v[1]);
    }
    for (size_t j = 0; j < r->D; j++) {
        ref_fill(v, 1, 0.5f, 1.5f, seed);
        dtype_put(c->w, r->dt, j, v[0]);
        c->wd[j] = (double)dtype_get(c->w, r->dt, j) + (double)r->plus;
    }
    for (size_t k = 0; k < rows * r->D; k++) {
        size_t at = k / (r->H * r->D) * r->stride + k % (r->H * r->D);

        c->xd[k] = (double)dtype_get(c->x, r->dt, at);
        c->dd[k] = (double)dtype_get(c->d, r->dt, at);
    }
    c->r.x = c->x;
    c->r.w = c->w;
    c->r.rstd = guard_alloc(rows * 4);
}

static void heads_release(struct heads_case *c)
{
    guard_free(c->x);
    guard_free(c->d);
    guard_free(c->w);
    guard_free(c->r.rstd);
    free(c->xd);
}

/* The heads of `got` are `want`, (n H, D); between them is what `before` has. */
static void check_rows(const struct heads_case *c, const void *got, const double *want,
                       const void *before)
{
    const struct rmsnorm_heads *r = &c->r;
    double rtol = r->dt == DT_F32 ? 1e-5 : 1.0 / 256;

    for (size_t i = 0, k = 0; i < c->all; i++) {
        double v = (double)dtype_get(got, r->dt, i);

        if (i % r->stride >= r->H * r->D) {
            assert_true(v == (double)dtype_get(before, r->dt, i));
            continue;
        }
        if (!(fabs(v - want[k]) <= (r->D < 4 ? 1e-4 : 1e-5) + rtol * fabs(want[k])))
            fail_msg("heads %zu x %zu x %zu: %g, not %g", r->n, r->H, r->D, v, want[k]);
        k++;
    }
}

static void check_heads_forward(const struct heads_case *c, const double *want, const void *before)
{
    const struct rmsnorm_heads *r = &c->r;
    size_t               bytes = c->all * dtype_bytes(r->dt);
    void                *out = guard_alloc(bytes), *place = guard_alloc(bytes);
    struct rmsnorm_heads in_place = *r;

    memcpy(out, before, bytes);
    memcpy(place, c->x, bytes);
    in_place.x = place;
    omp_set_num_threads(1);
    rmsnorm_heads_forward(out, r);
    check_rows(c, out, want, before);
    rmsnorm_heads_forward(place, &in_place);
    check_rows(c, place, want, c->x);
    memcpy(place, before, bytes);
    omp_set_num_threads(3);
    rmsnorm_heads_forward(place, r);
    assert_memory_equal(place, out, bytes);
    guard_free(out);
    guard_free(place);
}

static void check_heads(enum dtype dt, size_t n, size_t H, size_t D, size_t stride, uint64_t *seed)
{
    struct heads_case c = { .r = { .n = n, .H = H, .D = D, .stride = stride, .dt = dt,
                                   .eps = (float)eps, .plus = H == 3 } };
    size_t  rows = n * H;

    heads_init(&c, seed);
    size_t  bytes = c.all * dtype_bytes(dt);
    double *want = malloc((rows * D + rows + D) * sizeof *want);
    void   *scratch = guard_alloc(colsum_scratch(n, D)), *again = guard_alloc(bytes),
           *before = malloc(bytes);
    float  *dw = guard_alloc(D * 4), *dw_again = guard_alloc(D * 4);
    struct rmsnorm_heads_backward b = { .r = &c.r, .d = c.d, .dw = dw, .scratch = scratch };

    memcpy(again, c.d, bytes);
    memcpy(before, c.d, bytes);
    ref_rmsnorm(want, want + rows * D, c.xd, c.wd, rows, D, eps);
    check_heads_forward(&c, want, before);
    assert_true(ref_excess(c.r.rstd, want + rows * D, rows, 0.0, 1e-6) <= 1.0);
    ref_rmsnorm_backward(want, want + rows * D, c.dd, c.xd, c.wd, rows, D, eps);
    for (size_t j = 0; j < D; j++) { // what is added to
        dw[j] = dw_again[j] = (float)j;
        want[rows * D + j] += (double)j;
    }
    omp_set_num_threads(1);
    rmsnorm_heads_backward(&b);
    check_rows(&c, c.d, want, before);
    assert_true(ref_excess(dw, want + rows * D, D, 1e-4, 1e-5) <= 1.0);
    omp_set_num_threads(3);
    b.d = again;
    b.dw = dw_again;
    rmsnorm_heads_backward(&b);
    assert_memory_equal(again, c.d, bytes);
    assert_memory_equal(dw_again, dw, D * 4);
    guard_free(scratch);
    guard_free(again);
    guard_free(dw);
    guard_free(dw_again);
    free(before);
    free(want);
    heads_release(&c);
}

static void test_rmsnorm_heads(void **state)
{
    static const size_t Ds[] = { 1, 2, 7, 63, 64, 65, 128 };
    uint64_t            seed = 5;

    (void)state;
    for (int dt = DT_F32; dt <= DT_BF16; dt++)
        for (size_t d = 0; d < sizeof Ds / sizeof *Ds; d++) {
            check_heads((enum dtype)dt, 1, 1, Ds[d], Ds[d], &seed);
            check_heads((enum dtype)dt, 33, 3, Ds[d], 3 * Ds[d] + d, &seed);
            check_heads((enum dtype)dt, 70, 7, Ds[d], 9 * Ds[d], &seed); // 7 of q, one of k, v
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rmsnorm_heads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
