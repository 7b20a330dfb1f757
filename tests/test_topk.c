/* Top-K against sorting everything: ties, zeros of both signs, subnormals, one value for all, k
 * from 1 to n. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/update/topk.h"
#include "tests/ref.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>

static int by_magnitude(const void *pa, const void *pb)
{
    const struct topk_pair *a = pa, *b = pb;
    double                  x = fabs((double)a->value), y = fabs((double)b->value);

    if (x != y)
        return x < y ? 1 : -1;
    return a->index < b->index ? -1 : 1;
}

static int by_index(const void *pa, const void *pb)
{
    const struct topk_pair *a = pa, *b = pb;

    return a->index < b->index ? -1 : 1;
}

static void check(const float *values, size_t n, size_t k)
{
    struct topk_pair *want = malloc(n * sizeof *want), *got = guard_alloc(k * sizeof *got);
    size_t            bytes = topk_scratch(n, k);
    void             *scratch = guard_alloc((bytes + 63) / 64 * 64);
    float            *x = guard_alloc(n * sizeof *x);

    memcpy(x, values, n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        want[i] = (struct topk_pair){ (uint32_t)i, x[i] };
    qsort(want, n, sizeof *want, by_magnitude);
    qsort(want, k, sizeof *want, by_index);
    for (int threads = 1; threads <= 3; threads += 2) {
        omp_set_num_threads(threads);
        memset(got, 0xff, k * sizeof *got);
        topk_select(got, x, n, k, scratch);
        assert_memory_equal(got, want, k * sizeof *got);
    }
    guard_free(x);
    guard_free(scratch);
    guard_free(got);
    free(want);
}

enum kind { NORMAL, TIES, EQUAL, ZEROS, SPARSE, SUBNORMAL, SORTED, SPIKES, INFINITE, N_KINDS };

static float value_of(enum kind kind, size_t i, size_t n, uint64_t *seed)
{
    float u = (float)(ref_random(seed) >> 40) * 0x1p-23f - 1.0f;

    switch (kind) {
    case NORMAL:
        return u * u * u;
    case TIES:
        return roundf(u * 8.0f);
    case EQUAL:
        return u < 0.0f ? -2.5f : 2.5f;
    case ZEROS:
        return u < 0.0f ? -0.0f : 0.0f;
    case SPARSE:
        return ref_random(seed) % 500 ? copysignf(0.0f, u) : u;
    case SUBNORMAL:
        return u * 0x1p-130f;
    case SORTED:
        return (float)i;
    case SPIKES: // all that is large stands in one block: the sample sees too little or too much of
                 // it
        return i > n - n / 50 ? 100.0f + u : u * 1e-3f;
    default:
        return ref_random(seed) % 100 ? u : copysignf(INFINITY, u);
    }
}

static void test_against_sort(void **state)
{
    static const size_t sizes[] = { 1, 2, 3, 17, 1001, 4095, 4096, 4097, 16384, 50001, 131072 };
    uint64_t            seed = 3;

    (void)state;
    for (int kind = 0; kind < N_KINDS; kind++)
        for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; j++) {
            size_t n = sizes[j], ks[] = { 1, 2, n / 100, n / 8, n / 8 + 1, n / 2, n - 1, n };
            float *x = malloc(n * sizeof *x);

            for (size_t i = 0; i < n; i++)
                x[i] = value_of((enum kind)kind, i, n, &seed);
            for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++)
                if (ks[i] >= 1 && ks[i] <= n)
                    check(x, n, ks[i]);
            free(x);
        }
}

static void test_count(void **state)
{
    (void)state;
    assert_int_equal(topk_count(1, 0.02), 1);
    assert_int_equal(topk_count(99, 0.02), 1);
    assert_int_equal(topk_count(1000, 0.02), 10);
    assert_int_equal(topk_count(1049, 0.02), 10);
    assert_int_equal(topk_count(10, 2.0), 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_sort),
        cmocka_unit_test(test_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
