/* Words transposed, against the definition, in sizes whose last strip is half a register, out of
 * wider rows; nothing outside the arrays is touched. */
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
    for (size_t rows = 16; rows <= 64; rows += 16)
        for (size_t cols = 8; cols <= 72; cols += 8) {
            size_t    stride = cols + rows % 3, all = (rows - 1) * stride + cols;
            uint32_t *x = guard_alloc(all * sizeof *x);
            uint32_t *out = guard_alloc(rows * cols * sizeof *out);

            for (size_t i = 0; i < all; i++)
                x[i] = (uint32_t)i * 2654435761u;
            words_transpose(out, x, rows, cols, stride);
            for (size_t i = 0; i < rows; i++)
                for (size_t j = 0; j < cols; j++)
                    assert_int_equal(out[j * rows + i], x[i * stride + j]);
            guard_free(x);
            guard_free(out);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_each_size) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
