/* transpose.h: transposes matrices of 4-byte words, with AVX-512 in registers of 16 words. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* out (cols, rows) = the transpose of x (rows, cols). The rows of out are `pitch` words apart, and
 * those of x `stride`. cols is a multiple of 8. Not parallel: for use inside kernels. */
void words_transpose(uint32_t *restrict out, size_t pitch, const uint32_t *restrict x,
                     size_t stride, size_t rows, size_t cols);
