/* The classifier's head against double, on odd sizes beside guard pages. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/rows/softmax.h"
#include "tests/ref.h"

#include <stdlib.h>

/* A random array of `dt` that ends at a guard page, and the same in double. */
static void *fill(double **exact, enum dtype dt, size_t n, uint64_t *seed)
{
    float *f = malloc(n * sizeof *f);
    void  *p = guard_alloc(n * dtype_bytes(dt));

    *exact = malloc(n * sizeof **exact);
    ref_fill(f, n, -1.0f, 1.0f, seed);
    for (size_t i = 0; i < n; i++) {
        dtype_put(p, dt, i, f[i]);
        (*exact)[i] = (double)dtype_get(p, dt, i);
    }
    free(f);
    return p;
}

static void check(enum dtype dt, size_t n, size_t L, size_t C, uint64_t *seed)
{
    double *ex, *ew, *ed, *want = malloc((n * L + n * C + L * C) * sizeof *want);
    void   *x = fill(&ex, dt, n * C, seed), *w = fill(&ew, dt, L * C, seed);
    float  *d = fill(&ed, DT_F32, n * L, seed), *logits = guard_alloc(n * L * 4),
          *dx = guard_alloc(n * C * 4);
    float  *dw = guard_alloc(L * C * 4);
    struct score s = { .n = n, .L = L, .C = C, .dt = dt, .x = x, .w = w };

    score_forward(logits, &s);
    ref_matmul(want, ex, ew, n, L, C, 0, 1);
    assert_true(ref_excess(logits, want, n * L, 1e-5, 1e-5) <= 1.0);

    ref_fill(dx, n * C, -9.0f, 9.0f, seed); // written, not added to
    for (size_t i = 0; i < L * C; i++)
        dw[i] = 0.5f; // added to
    score_backward(dx, dw, d, &s);
    ref_matmul(want, ed, ew, n, C, L, 0, 0);
    assert_true(ref_excess(dx, want, n * C, 1e-5, 1e-5) <= 1.0);
    ref_matmul(want, ed, ex, L, C, n, 1, 0);
    for (size_t i = 0; i < L * C; i++)
        want[i] += 0.5;
    assert_true(ref_excess(dw, want, L * C, 1e-5, 1e-5) <= 1.0);
    free(ex), free(ew), free(ed), free(want);
    guard_free(x), guard_free(w), guard_free(d), guard_free(logits), guard_free(dx), guard_free(dw);
}

static void test_against_double(void **state)
{
    static const size_t sizes[][3] = { { 1, 1, 1 },  { 3, 2, 63 },   { 5, 3, 64 },
                                       { 2, 7, 65 }, { 33, 2, 387 }, { 4, 150, 31 } };
    uint64_t seed = 1;

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int dt = DT_F32; dt <= DT_BF16; dt++)
            check((enum dtype)dt, sizes[i][0], sizes[i][1], sizes[i][2], &seed);
}

static void test_squares(void **state)
{
    const float   predicted[] = { 2.0f, -1.0f, 5.0f }, value[] = { 1.5f, 1.0f, 0.0f };
    const int32_t label[] = { 0, 0, -1 };
    float         losses[3], d[3];

    (void)state;
    score_squares(losses, d, predicted, value, label, 3, 0.5f);
    assert_true(losses[0] == 0.25f && losses[1] == 4.0f && losses[2] == 0.0f);
    assert_true(d[0] == 0.5f && d[1] == -2.0f && d[2] == 0.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_against_double),
                                        cmocka_unit_test(test_squares) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
