/* GELU and its slope against double over all magnitudes, at the far ends, and on odd lengths. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/gelu.h"
#include "kernels/vexp.h"
#include "tests/ref.h"

#include <math.h>
#include <stdlib.h>

static void check(enum dtype dt, size_t n, float reach, uint64_t *seed)
{
    size_t  bytes = n * dtype_bytes(dt);
    void   *x = guard_alloc(bytes), *out = guard_alloc(bytes), *dx = guard_alloc(bytes);
    float  *dout = guard_alloc(n * 4), *got = malloc(2 * n * 4);
    double *want = malloc(2 * n * sizeof *want);

    ref_fill(dout, n, -reach, reach, seed);
    for (size_t i = 0; i < n; i++)
        dtype_put(x, dt, i, dout[i]);
    ref_fill(dout, n, -1.0f, 1.0f, seed);
    gelu_forward(out, x, dt, n);
    gelu_backward(dx, dout, x, dt, n);
    for (size_t i = 0; i < n; i++) {
        double v = (double)dtype_get(x, dt, i);

        got[i] = dtype_get(out, dt, i);
        got[n + i] = dtype_get(dx, dt, i);
        want[i] = ref_gelu(v);
        want[n + i] = (double)dout[i] * ref_gelu_grad(v);
    }
    assert_true(ref_excess(got, want, 2 * n, 1e-6, dt == DT_F32 ? 1e-6 : 1.0 / 256) <= 1.0);
    guard_free(x);
    guard_free(out);
    guard_free(dx);
    guard_free(dout);
    free(got);
    free(want);
}

static void test_against_double(void **state)
{
    uint64_t seed = 1;

    (void)state;
    for (int dt = DT_F32; dt <= DT_BF16; dt++) {
        for (size_t n = 1; n < 70; n++)
            check((enum dtype)dt, n, 4.0f, &seed);
        check((enum dtype)dt, 40001, 0.01f, &seed);
        check((enum dtype)dt, 40001, 15.0f, &seed);
    }
}

static void test_far(void **state)
{
    const float x[] = { -1e30f, -1e12f, -50.0f, 0.0f, 50.0f, 1e12f, 1e30f };
    const float ones[] = { 1, 1, 1, 1, 1, 1, 1 };
    float       y[7], dx[7];

    (void)state;
    gelu_forward(y, x, DT_F32, 7);
    gelu_backward(dx, ones, x, DT_F32, 7);
    for (int i = 0; i < 7; i++) {
        assert_true(i < 3 ? y[i] == 0.0f : y[i] == x[i]);
        assert_true(dx[i] == (i < 3 ? 0.0f : i == 3 ? 0.5f : 1.0f));
    }
}

/* The two functions of vexp.h by their promised errors, over floats of every exponent. */
static void test_vexp(void **state)
{
    (void)state;
    for (uint64_t u = 0; u < UINT64_C(1) << 32; u += 10007) {
        uint32_t bits = (uint32_t)u;
        float    x;
        double   e, t;

        memcpy(&x, &bits, sizeof x);
        if (x != x) {
            assert_true(isnan(vexpf(x)) && isnan(vtanhf(x)));
            continue;
        }
        e = exp((double)x);
        t = tanh((double)x);
        if (x > -87.33654f && x < 88.72283f)
            assert_true(fabs((double)vexpf(x) - e) <= 1e-7 * e);
        else
            assert_true(x < 0.0f ? vexpf(x) == 0.0f : isinf(vexpf(x)));
        assert_true(fabs((double)vtanhf(x) - t) <= 2e-7 * fabs(t) + 1e-45);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_double),
        cmocka_unit_test(test_far),
        cmocka_unit_test(test_vexp),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
