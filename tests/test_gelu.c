/* Both forms of GELU and their slopes against double over all magnitudes, at the far ends, and on
 * odd lengths; the sums of columns that backward takes in its pass are those of a pass of their
 * own. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/elementwise.h"
#include "kernels/rows/gelu.h"
#include "kernels/vexp.h"
#include "tests/ref.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>

static const struct form {
    void (*forward)(void *out, const void *x, enum dtype dt, size_t n);
    void (*backward)(const struct gelu_backward *g);
    double (*value)(double x);
    double (*slope)(double x);
} forms[] = {
    { gelu_forward, gelu_backward, ref_gelu, ref_gelu_grad },
    { gelu_erf_forward, gelu_erf_backward, ref_gelu_erf, ref_gelu_erf_grad },
};
enum { FORMS = sizeof forms / sizeof *forms };

/* Rows of C columns; beside the values, backward's sums of columns, on 1 and on 3 threads. */
static void check(const struct form *f, enum dtype dt, size_t rows, size_t C, float reach,
                  uint64_t *seed)
{
    size_t  n = rows * C, bytes = n * dtype_bytes(dt);
    void   *x = guard_alloc(bytes), *out = guard_alloc(bytes), *again = guard_alloc(bytes),
         *dx = guard_alloc(bytes);
    float *dout = guard_alloc(n * 4), *db = guard_alloc(C * 4), *want_db = guard_alloc(C * 4),
          *got = malloc(2 * n * 4);
    void   *scratch = guard_alloc(colsum_scratch(rows, C));
    double *want = malloc(2 * n * sizeof *want);

    ref_fill(dout, n, -reach, reach, seed);
    for (size_t i = 0; i < n; i++)
        dtype_put(x, dt, i, dout[i]);
    ref_fill(dout, n, -1.0f, 1.0f, seed);
    ref_fill(db, C, -1.0f, 1.0f, seed);
    memcpy(want_db, db, C * 4);
    f->forward(out, x, dt, n);
    omp_set_num_threads(*seed % 2 ? 1 : 3);
    f->backward(&(struct gelu_backward){ .n = rows, .C = C, .dt = dt, .x = x, .dout = dout,
                                         .out = again, .dx = dx, .db = db, .scratch = scratch });
    assert_memory_equal(again, out, bytes);
    colsum_add(want_db, NULL, dx, dt, rows, C, scratch);
    assert_memory_equal(db, want_db, C * 4);
    for (size_t i = 0; i < n; i++) {
        double v = (double)dtype_get(x, dt, i);

        got[i] = dtype_get(out, dt, i);
        got[n + i] = dtype_get(dx, dt, i);
        want[i] = f->value(v);
        want[n + i] = (double)dout[i] * f->slope(v);
    }
    assert_true(ref_excess(got, want, 2 * n, 1e-6, dt == DT_F32 ? 1e-6 : 1.0 / 256) <= 1.0);
    guard_free(x);
    guard_free(out);
    guard_free(again);
    guard_free(dx);
    guard_free(dout);
    guard_free(db);
    guard_free(want_db);
    guard_free(scratch);
    free(got);
    free(want);
}

static void test_against_double(void **state)
{
    uint64_t seed = 1;

    (void)state;
    for (const struct form *f = forms; f < forms + FORMS; f++)
        for (int dt = DT_F32; dt <= DT_BF16; dt++) {
            for (size_t n = 1; n < 70; n++)
                check(f, (enum dtype)dt, 70 - n, n, 4.0f, &seed);
            check(f, (enum dtype)dt, 13, 3077, 0.01f, &seed);
            check(f, (enum dtype)dt, 65, 2049, 15.0f, &seed);
        }
}

static void test_far(void **state)
{
    const float x[] = { -1e30f, -1e12f, -50.0f, 0.0f, 50.0f, 1e12f, 1e30f };
    const float ones[] = { 1, 1, 1, 1, 1, 1, 1 };

    (void)state;
    for (const struct form *f = forms; f < forms + FORMS; f++) {
        float y[7], dx[7], db[7] = { 0 }, scratch[7];

        f->forward(y, x, DT_F32, 7);
        f->backward(&(struct gelu_backward){ .n = 1, .C = 7, .dt = DT_F32, .x = x, .dout = ones,
                                             .out = y, .dx = dx, .db = db, .scratch = scratch });
        for (int i = 0; i < 7; i++) {
            assert_true(i < 3 ? y[i] == 0.0f : y[i] == x[i]);
            assert_true(db[i] == dx[i] && dx[i] == (i < 3 ? 0.0f : i == 3 ? 0.5f : 1.0f));
        }
    }
}

/* The exact form keeps its digits in the tail, down to the smallest normal floats; an infinity
 * stays, and a NaN. */
static void test_tail(void **state)
{
    const float odd[] = { INFINITY, -INFINITY, NAN };
    float       y[3];

    (void)state;
    for (float x = -0.001f; x > -12.5f; x *= 1.001f) {
        float  got;
        double want = ref_gelu_erf((double)x);

        gelu_erf_forward(&got, &x, DT_F32, 1);
        if (!(fabs((double)got - want) <= 5e-7 * fabs(want)))
            fail_msg("gelu(%.9g) is %.9g, not %.9g", (double)x, (double)got, want);
    }
    gelu_erf_forward(y, odd, DT_F32, 3);
    assert_true(isinf(y[0]) && y[0] > 0.0f && y[1] == 0.0f && isnan(y[2]));
}

/* A NaN stays one, in the value and in the slope. */
static void test_nan(void **state)
{
    const float x[] = { NAN, -NAN }, one[] = { 1, 1 };

    (void)state;
    for (const struct form *f = forms; f < forms + FORMS; f++) {
        float y[2], dx[2], db[2] = { 0 }, scratch[2];

        f->forward(y, x, DT_F32, 2);
        assert_true(isnan(y[0]) && isnan(y[1]));
        f->backward(&(struct gelu_backward){ .n = 1, .C = 2, .dt = DT_F32, .x = x, .dout = one,
                                             .out = y, .dx = dx, .db = db, .scratch = scratch });
        assert_true(isnan(y[0]) && isnan(y[1]) && isnan(dx[0]) && isnan(dx[1]));
    }
}

/* vexp2f_within by its promised error and one rounding, from end to end. */
static void test_vexp2(void **state)
{
    (void)state;
    for (float t = -126.0f; t <= 127.0f; t += 0.00097f) {
        double want = exp2((double)t);

        assert_true(fabs((double)vexp2f_within(t) - want) <= 2e-7 * want);
    }
}

/* vexpf by its promised error, over floats of every exponent. */
static void test_vexp(void **state)
{
    (void)state;
    for (uint64_t u = 0; u < UINT64_C(1) << 32; u += 10007) {
        uint32_t bits = (uint32_t)u;
        float    x;
        double   e;

        memcpy(&x, &bits, sizeof x);
        if (x != x) {
            assert_true(isnan(vexpf(x)));
            continue;
        }
        e = exp((double)x);
        if (x > -87.33654f && x < 88.72283f)
            assert_true(fabs((double)vexpf(x) - e) <= 1e-7 * e);
        else
            assert_true(x < 0.0f ? vexpf(x) == 0.0f : isinf(vexpf(x)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_double),
        cmocka_unit_test(test_far),
        cmocka_unit_test(test_tail),
        cmocka_unit_test(test_nan),
        cmocka_unit_test(test_vexp2),
        cmocka_unit_test(test_vexp),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
