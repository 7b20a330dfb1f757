/* A matrix in blocks of pairs, against the definition, for both orders of the blocks, as it stands
 * and transposed; the same for any number of threads; nothing outside the arrays is touched. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/product/pairs.h"
#include "tests/ref.h"

#include <omp.h>

static void check(const struct pairs *p)
{
    size_t all = p->k * p->n, bytes = all * sizeof(bf16);
    bf16  *x = guard_alloc(bytes), *out = guard_alloc(bytes);

    for (size_t i = 0; i < all; i++)
        x[i] = (bf16)(i * 40503u >> 3);
    memset(out, 0, bytes);
    pairs_pack(out, x, p);
    for (size_t k = 0; k < p->k; k++)
        for (size_t n = 0; n < p->n; n++) {
            size_t block = k / PAIRS_ROWS * p->down + n / p->wide * p->on;
            size_t in = (k % PAIRS_ROWS / 2 * p->wide + n % p->wide) * 2 + k % 2;

            assert_int_equal(out[block + in], x[p->transposed ? n * p->k + k : k * p->n + n]);
        }
    guard_free(x);
    guard_free(out);
}

static void test_each_size(void **state)
{
    (void)state;
    for (size_t wide = 16; wide <= 64; wide += 16)
        for (size_t down = 1; down <= 5; down++)
            for (size_t on = 1; on <= 11; on += 2)
                for (int kind = 0; kind < 8; kind++) {
                    size_t block = PAIRS_ROWS * wide;
                    struct pairs p = { .k = down * PAIRS_ROWS, .n = on * wide, .wide = wide,
                                       .down = block, .on = down * block, .transposed = kind & 1 };

                    if (kind & 2) { // the next block stands behind each
                        p.down = on * block;
                        p.on = block;
                    }
                    omp_set_num_threads(kind & 4 ? 3 : 1);
                    check(&p);
                }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_each_size) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
