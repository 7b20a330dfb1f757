/* Philox against its published answers; the normals' moments and independence of cuts. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/rng.h"
#include "tests/ref.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>

/* Salmon et al.'s known answers for philox4x32-10, first two words of four. */
static void test_known_answers(void **state)
{
    (void)state;
    assert_true(rng_bits(0, 0, 0) == 0xe169c58d6627e8d5u);
    assert_true(rng_bits(UINT64_MAX, UINT64_MAX, UINT64_MAX) == 0x41c83b0e408f276du);
    assert_true(rng_bits(0x299f31d0a4093822u, 0x0370734413198a2eu, 0x85a308d3243f6a88u) ==
                0x94fdccebd16cfe09u);
}

static void test_uniform(void **state)
{
    double sum = 0.0;

    (void)state;
    for (uint64_t i = 0; i < 100000; i++) {
        float u = rng_uniform(7, 1, i);

        assert_true(u >= 0.0f && u < 1.0f);
        sum += (double)u;
    }
    assert_true(fabs(sum / 1e5 - 0.5) < 0.005);
}

static void test_normal(void **state)
{
    enum { N = 200001 };
    float *x = guard_alloc(N * sizeof *x), *part = guard_alloc(N * sizeof *part);
    double m1 = 0.0, m2 = 0.0, m4 = 0.0, lag = 0.0;

    (void)state;
    rng_normal(x, N, 0.5f, 42, 3, 0);
    for (size_t i = 0; i < N; i++) {
        double z = (double)x[i] / 0.5;

        assert_true(isfinite(z));
        m1 += z / N;
        m2 += z * z / N;
        m4 += z * z * z * z / N;
        lag += i ? z * (double)x[i - 1] / 0.5 / N : 0.0;
    }
    assert_true(fabs(m1) < 0.012 && fabs(m2 - 1.0) < 0.02 && fabs(m4 - 3.0) < 0.2 &&
                fabs(lag) < 0.012);
    for (size_t first = 0; first < 5; first++)
        for (size_t n = 1; n < 6; n++) {
            rng_normal(part, n, 0.5f, 42, 3, first);
            assert_memory_equal(part, x + first, n * sizeof *x);
        }
    omp_set_num_threads(3);
    rng_normal(part, N - 7, 0.5f, 42, 3, 7);
    assert_memory_equal(part, x + 7, (N - 7) * sizeof *x);
    guard_free(x);
    guard_free(part);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_uniform),
        cmocka_unit_test(test_normal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
