/* transpose.h: transposes matrices of 4-byte words, with AVX-512 in registers of 16 words. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* out (cols, rows) = the transpose of x (rows, cols), whose rows are `stride` words apart. rows
 * is a multiple of 16, cols of 8. Not parallel: for use inside kernels. */
void words_transpose(uint32_t *restrict out, const uint32_t *restrict x, size_t rows, size_t cols,
                     size_t stride);
