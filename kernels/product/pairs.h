/* pairs.h: a bf16 matrix in blocks of pairs, the layout of the right operand in oneDNN's bf16
 * products (matmul_onednn.c). A block has PAIRS_ROWS rows x `wide` columns. For each two rows it
 * holds the pairs of both elements of each column. Values are only copied. */
#pragma once

#include "data/base/dtype.h"

enum { PAIRS_ROWS = 32 };

struct pairs {
    size_t k, n;       // rows, a multiple of PAIRS_ROWS; columns, a multiple of wide
    size_t wide;       // a multiple of 16; 0: not a layout of pairs
    size_t down, on;   // distance in out, in elements, to the block below, and to the next block
    int    transposed; // x is (n, k)
};

/* Packs x (k, n) into out, k n elements. */
void pairs_pack(bf16 *out, const bf16 *x, const struct pairs *p);
