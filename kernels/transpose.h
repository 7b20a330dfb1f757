/* transpose.h: matrices of 4-byte words, transposed; by registers of 16 where the CPU has
 * AVX-512. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* out (cols, rows) = x (rows, cols) transposed, whose rows are `stride` words apart; rows a
 * multiple of 16, cols of 8. Not parallel: for use inside kernels. */
void words_transpose(uint32_t *restrict out, const uint32_t *restrict x, size_t rows, size_t cols,
                     size_t stride);
