/* pairs.h: a matrix of bf16 in blocks of pairs, as oneDNN's products of bf16 take their right
 * operand (matmul_onednn.c). A block is PAIRS_ROWS rows x `wide` columns; in it stand, for each two
 * rows, the pairs that they make in each column. Copied, nothing is computed. */
#pragma once

#include "data/base/dtype.h"

enum { PAIRS_ROWS = 32 };

struct pairs {
    size_t k, n;       // rows, a multiple of PAIRS_ROWS, and columns, a multiple of wide
    size_t wide;       // a multiple of 16; 0: no layout of this kind
    size_t down, on;   // elements of out from a block to the one below, and to the next one
    int    transposed; // x is (n, k)
};

/* out: k n elements; x (k, n). */
void pairs_pack(bf16 *out, const bf16 *x, const struct pairs *p);
