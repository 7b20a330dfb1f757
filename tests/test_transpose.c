/* Words transposed, against the definition, in sizes whose last strip is half a register; nothing
 * outside the arrays is touched. */
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
            size_t    bytes = rows * cols * sizeof(uint32_t);
            uint32_t *x = guard_alloc(bytes), *out = guard_alloc(bytes);

            for (size_t i = 0; i < rows * cols; i++)
                x[i] = (uint32_t)i * 2654435761u;
            words_transpose(out, x, rows, cols);
            for (size_t i = 0; i < rows; i++)
                for (size_t j = 0; j < cols; j++)
                    assert_int_equal(out[j * rows + i], x[i * cols + j]);
            guard_free(x);
            guard_free(out);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_each_size) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
