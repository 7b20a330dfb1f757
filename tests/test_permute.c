/* Permutations that are permutations, differ, and have the bits that runs depend on. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/base/crc32c.h"
#include "data/base/permute.h"

#include <stdlib.h>

typedef uint64_t permutation(uint64_t seed, uint64_t stream, uint64_t i, uint64_t n);

static permutation *const both[] = { permute, permute_rows };

static void check_bijection(permutation *f, uint64_t n, uint64_t stream)
{
    unsigned char *seen = calloc(n, 1);
    uint64_t       moved = 0;

    for (uint64_t i = 0; i < n; i++) {
        uint64_t j = f(11, stream, i, n);

        assert_true(j < n && !seen[j]);
        seen[j] = 1;
        moved += j != i;
    }
    if (n > 20)
        assert_true(moved > n / 2);
    free(seen);
}

static void test_permute(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        for (uint64_t n = 1; n < 300; n++)
            check_bijection(both[k], n, n);
        check_bijection(both[k], 65536, 1);
        check_bijection(both[k], 65537, 2);
        check_bijection(both[k], 300007, 3);
    }
}

/* Over many seeds every element of five comes to every place about equally often. */
static void test_permute_uniform(void **state)
{
    enum { SEEDS = 20000 };
    int count[5][5] = {{0}};

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (uint64_t i = 0; i < 5; i++)
            count[i][permute(seed, 9, i, 5)]++;
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++)
            assert_in_range(count[i][j], SEEDS / 5 * 9 / 10, SEEDS / 5 * 11 / 10);
}

/* The checksums are those of runs that older versions made. */
static void test_bits(void **state)
{
    static const uint64_t sizes[] = { 1, 2, 5, 255, 256, 257, 1000, 70000, UINT64_C(1) << 40,
                                      UINT64_C(1) << 62 };
    uint32_t sums[2] = { 0, 0 };

    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (uint64_t i = 0; i < sizes[s] && i < 1000; i++)
            for (int k = 0; k < 2; k++) {
                uint64_t j = both[k](i % 7, UINT64_C(0x6d61736b00000000) + i / 7, i, sizes[s]);

                sums[k] = crc32c(sums[k], &j, sizeof j);
            }
    assert_int_equal(sums[0], 0xa7c5b92d);
    assert_int_equal(sums[1], 0x4a970e90);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_permute),
        cmocka_unit_test(test_permute_uniform),
        cmocka_unit_test(test_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
