/* The sum of squares: right, the same for any number of threads, and aware of what is not finite.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/update/reduce.h"
#include "tests/ref.h"

#include <math.h>
#include <omp.h>

static void test_sum(void **state)
{
    static const size_t sizes[] = { 1, 2, 31, 32, 33, 1000,
                                    REDUCE_BLOCK - 1, REDUCE_BLOCK, REDUCE_BLOCK + 1, 100003 };
    uint64_t            seed = 1;

    (void)state;
    for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; j++) {
        size_t n = sizes[j];
        float *x = guard_alloc(n * sizeof *x);
        void  *scratch = guard_alloc(reduce_scratch(n));
        int    bad = 0;
        double got, want = 0.0;

        ref_fill(x, n, -3.0f, 3.0f, &seed);
        for (size_t i = 0; i < n; i++)
            want += (double)x[i] * (double)x[i];
        omp_set_num_threads(1);
        got = reduce_sumsq(x, n, &bad, scratch);
        assert_true(fabs(got - want) <= 1e-12 * want);
        omp_set_num_threads(3);
        assert_true(reduce_sumsq(x, n, &bad, scratch) == got);
        assert_int_equal(bad, 0);
        guard_free(x);
        guard_free(scratch);
    }
}

static void test_nonfinite(void **state)
{
    const float values[] = { NAN, INFINITY, -INFINITY };
    double      scratch[8];
    float       x[77] = {0};

    (void)state;
    assert_true(reduce_scratch(77) <= sizeof scratch);
    for (int v = 0; v < 3; v++)
        for (size_t i = 0; i < 77; i += 19) {
            int bad = 0;

            x[i] = values[v];
            reduce_sumsq(x, 77, &bad, scratch);
            assert_int_equal(bad, 1);
            x[i] = 3.4e38f; // its square is no float, but not a fault either
            bad = 0;
            assert_true(isfinite(reduce_sumsq(x, 77, &bad, scratch)));
            assert_int_equal(bad, 0);
        }
}

static void test_empty(void **state)
{
    int bad = 0;

    (void)state;
    assert_true(reduce_sumsq(NULL, 0, &bad, NULL) == 0.0);
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum),
        cmocka_unit_test(test_nonfinite),
        cmocka_unit_test(test_empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
