/* Conversions of every value there is (of 16 bits) and of the hard ones of fp32; sums and residuals
 * against double, on odd sizes, beside guard pages. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/elementwise.h"
#include "tests/ref.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>

/* Every 16-bit pattern goes to fp32 and comes back the same, except that NaNs become quiet. */
static void check_round_trip(enum dtype dt, uint32_t exp_mask, uint32_t quiet)
{
    enum { N = 65535 };
    uint16_t *h = guard_alloc(N * 2), *back = guard_alloc(N * 2);
    float    *x = guard_alloc(N * 4);

    for (uint32_t i = 0; i < N; i++)
        h[i] = (uint16_t)(i + 1);
    convert(x, DT_F32, h, dt, N);
    convert(back, dt, x, DT_F32, N);
    for (uint32_t i = 0; i < N; i++) {
        uint32_t nan = (h[i] & 0x7fffu) > exp_mask;

        assert_int_equal(back[i], h[i] | (nan ? quiet : 0));
        assert_true(nan ? x[i] != x[i] : x[i] == x[i]);
    }
    guard_free(h);
    guard_free(back);
    guard_free(x);
}

static void test_round_trip(void **state)
{
    (void)state;
    check_round_trip(DT_BF16, 0x7f80, 0x40);
    check_round_trip(DT_F16, 0x7c00, 0x200);
}

/* The nearest of dt's values to x, by trying both neighbours; ties to the even pattern. */
static uint16_t nearest(float x, enum dtype dt)
{
    uint16_t best = 0;
    double   best_gap = INFINITY;

    for (uint32_t u = 0; u < 0x8000; u++) {
        uint16_t h = (uint16_t)u;
        float    f;
        double   gap;

        if (u > (dt == DT_BF16 ? 0x7f7f : 0x7bff))
            break;
        convert(&f, DT_F32, &h, dt, 1);
        gap = fabs((double)f - fabs((double)x));
        if (gap < best_gap || (gap == best_gap && u % 2 == 0)) {
            best = h;
            best_gap = gap;
        }
    }
    return (uint16_t)(best | (signbit(x) ? 0x8000u : 0u));
}

static void test_rounding(void **state)
{
    const float values[] = { 0.0f,        -0.0f,        1.0f,          1.00390625f,
                             1.01171875f, -1.00390637f, 3.14159274f,   65519.0f,
                             1e-8f,       5.97e-8f,     2.9802322e-8f, 2.98023259e-8f,
                             -6.1e-5f,    1.00048828f,  1.00146484f,   0.333333343f };
    uint16_t    h;

    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        convert(&h, DT_BF16, &values[i], DT_F32, 1);
        assert_int_equal(h, nearest(values[i], DT_BF16));
        convert(&h, DT_F16, &values[i], DT_F32, 1);
        assert_int_equal(h, nearest(values[i], DT_F16));
    }
    convert(&h, DT_F16, &(float){ 65520.0f }, DT_F32, 1);
    assert_int_equal(h, 0x7c00);
    convert(&h, DT_BF16, &(float){ 3.4028235e38f }, DT_F32, 1);
    assert_int_equal(h, 0x7f80);
    convert(&h, DT_BF16, &(float){ -INFINITY }, DT_F32, 1);
    assert_int_equal(h, 0xff80);
}

/* Vectors of any length give the bits of the one definition, and the 16-bit formats meet through
 * fp32. */
static void test_lengths(void **state)
{
    uint64_t seed = 5;

    (void)state;
    for (size_t n = 1; n < 1300; n += n < 70 ? 1 : 97) {
        float    *x = guard_alloc(n * 4), *y = guard_alloc(n * 4);
        uint16_t *h = guard_alloc(n * 2), *f16 = guard_alloc(n * 2), *again = guard_alloc(n * 2);

        ref_fill(x, n, -4.0f, 4.0f, &seed);
        x[n / 2] = NAN;
        convert(h, DT_BF16, x, DT_F32, n);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(h[i], bf16_from_f32(x[i]));
        convert(f16, DT_F16, h, DT_BF16, n);
        convert(y, DT_F32, f16, DT_F16, n);
        for (size_t i = 0; i < n; i++) // 8 bits of bf16 fit the 11 of fp16 unless they are
                                       // subnormal there
            assert_true(i == n / 2 || fabsf(y[i]) < 6.2e-5f || y[i] == bf16_to_f32(h[i]));
        convert(again, DT_BF16, f16, DT_F16, n);
        for (size_t i = 0; i < n; i++)
            assert_true(fabsf(y[i]) < 6.2e-5f || again[i] == h[i]);
        convert(y, DT_F32, x, DT_F32, n);
        assert_memory_equal(x, y, n * 4);
        guard_free(x);
        guard_free(y);
        guard_free(h);
        guard_free(f16);
        guard_free(again);
    }
}

static void test_residual_scale_and_zero(void **state)
{
    uint64_t seed = 6;

    (void)state;
    for (size_t n = 1; n < 100000; n = n * 3 + 1) {
        float *a = guard_alloc(n * 4), *b = guard_alloc(n * 4), *out = guard_alloc(n * 4);

        ref_fill(a, n, -1.0f, 1.0f, &seed);
        ref_fill(b, n, -1.0f, 1.0f, &seed);
        residual_add(out, a, b, n);
        for (size_t i = 0; i < n; i++)
            assert_true(out[i] == a[i] + b[i]);
        residual_add(a, a, b, n);
        assert_memory_equal(a, out, n * 4);
        floats_scale(a, 3.7f, n);
        for (size_t i = 0; i < n; i++)
            assert_true(a[i] == 3.7f * out[i]);
        floats_zero(a, n);
        for (size_t i = 0; i < n; i++)
            assert_true(a[i] == 0 && !signbit(a[i]));
        guard_free(a);
        guard_free(b);
        guard_free(out);
    }
}

/* Sums and rounding in one pass are those of two. */
static void check_narrow(const float *x, size_t n, size_t C, void *scratch)
{
    float *db = guard_alloc(C * 4), *want_db = guard_alloc(C * 4);
    bf16  *out = guard_alloc(n * C * 2), *want = guard_alloc(n * C * 2);

    colsum_add(want_db, NULL, x, DT_F32, n, C, scratch);
    convert(want, DT_BF16, x, DT_F32, n * C);
    colsum_add(db, out, x, DT_F32, n, C, scratch);
    assert_memory_equal(db, want_db, C * 4);
    assert_memory_equal(out, want, n * C * 2);
    guard_free(db);
    guard_free(want_db);
    guard_free(out);
    guard_free(want);
}

static void check_colsum(enum dtype dt, size_t n, size_t C, uint64_t *seed)
{
    float  *x = guard_alloc(n * C * 4), *db = guard_alloc(C * 4), *again = guard_alloc(C * 4);
    void   *dy = guard_alloc(n * C * dtype_bytes(dt)), *scratch = guard_alloc(colsum_scratch(n, C));
    double *want = calloc(C, sizeof *want);

    ref_fill(x, n * C, -1.0f, 1.0f, seed);
    convert(dy, dt, x, DT_F32, n * C);
    ref_fill(db, C, -1.0f, 1.0f, seed);
    memcpy(again, db, C * 4);
    for (size_t j = 0; j < C; j++) {
        want[j] = (double)db[j];
        for (size_t i = 0; i < n; i++)
            want[j] += (double)dtype_get(dy, dt, i * C + j);
    }
    omp_set_num_threads(1);
    colsum_add(db, NULL, dy, dt, n, C, scratch);
    omp_set_num_threads(3);
    colsum_add(again, NULL, dy, dt, n, C, scratch);
    assert_true(ref_excess(db, want, C, 1e-5 * (double)n, 1e-5) <= 1.0);
    assert_memory_equal(db, again, C * 4);
    if (dt == DT_F32)
        check_narrow(x, n, C, scratch);
    guard_free(x);
    guard_free(db);
    guard_free(again);
    guard_free(dy);
    guard_free(scratch);
    free(want);
}

static void test_colsum(void **state)
{
    uint64_t seed = 7;

    (void)state;
    for (size_t n = 1; n < 140; n = n * 2 + 1)
        for (size_t C = 1; C < 800; C = C * 3 + 1) {
            check_colsum(DT_F32, n, C, &seed);
            check_colsum(DT_BF16, n, C, &seed);
        }
}

/* Each value, also at the seam of the two ways it is computed, its digits near 0, and the ends. */
static void check_tanh(enum dtype dt, size_t n, float reach, uint64_t *seed)
{
    size_t  bytes = n * dtype_bytes(dt);
    void   *x = guard_alloc(bytes), *y = guard_alloc(bytes), *dx = guard_alloc(bytes);
    float  *dy = guard_alloc(n * 4), *got = malloc(2 * n * 4);
    double *want = malloc(2 * n * sizeof *want);

    ref_fill(dy, n, -reach, reach, seed);
    for (size_t i = 0; i < n; i++)
        dtype_put(x, dt, i, dy[i]);
    ref_fill(dy, n, -1.0f, 1.0f, seed);
    omp_set_num_threads(1);
    tanh_forward(y, x, dt, n);
    omp_set_num_threads(3);
    tanh_backward(dx, dy, y, dt, n);
    for (size_t i = 0; i < n; i++) {
        double v = (double)dtype_get(y, dt, i);

        got[i] = dtype_get(y, dt, i);
        got[n + i] = dtype_get(dx, dt, i);
        want[i] = tanh((double)dtype_get(x, dt, i));
        want[n + i] = (double)dy[i] * (1.0 - v * v);
    }
    assert_true(ref_excess(got, want, n, 0.0, dt == DT_F32 ? 4e-7 : 1.0 / 256) <= 1.0);
    assert_true(ref_excess(got + n, want + n, n, 1e-7, dt == DT_F32 ? 1e-6 : 1.0 / 256) <= 1.0);
    memcpy(dx, x, bytes);
    tanh_forward(dx, dx, dt, n);
    assert_memory_equal(dx, y, bytes);
    guard_free(x);
    guard_free(y);
    guard_free(dx);
    guard_free(dy);
    free(got);
    free(want);
}

static void test_tanh(void **state)
{
    float    ends[] = { -1e30f, 1e30f, -0.0f, NAN };
    uint64_t seed = 9;

    (void)state;
    for (int dt = DT_F32; dt <= DT_BF16; dt++)
        for (size_t n = 1; n < 200000; n = 3 * n + 2)
            for (float reach = 1e-3f; reach < 20.0f; reach *= 6.0f)
                check_tanh((enum dtype)dt, n, reach, &seed);
    tanh_forward(ends, ends, DT_F32, 4);
    assert_true(ends[0] == -1.0f && ends[1] == 1.0f && ends[2] == 0.0f && isnan(ends[3]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_residual_scale_and_zero),
        cmocka_unit_test(test_colsum),
        cmocka_unit_test(test_tanh),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
