/* Words transposed, against the definition, in sizes whose last strip is a part of a register, out
 * of and into wider rows; nothing else is touched. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/transpose.h"
#include "tests/ref.h"

static void test_each_size(void **state)
{
    (void)state;
    for (size_t rows = 1; rows <= 64; rows += rows % 16 ? 3 : 5)
        for (size_t cols = 8; cols <= 72; cols += 8) {
            size_t    stride = cols + rows % 3, all = (rows - 1) * stride + cols;
            size_t    pitch = rows + cols % 3, words = (cols - 1) * pitch + rows;
            uint32_t *x = guard_alloc(all * sizeof *x);
            uint32_t *out = guard_alloc(words * sizeof *out);

            for (size_t i = 0; i < all; i++)
                x[i] = (uint32_t)i * 2654435761u;
            words_transpose(out, pitch, x, stride, rows, cols);
            for (size_t i = 0; i < words; i++)
                assert_int_equal(out[i], i % pitch < rows ? x[i % pitch * stride + i / pitch] : 0);
            guard_free(x);
            guard_free(out);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_each_size) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
