/* quant.h: frozen matrices in fewer bits than they are computed with. A matrix is packed once, as a
 * whole, and unpacked each time before it is multiplied.
 *
 *     QUANT_BF16  values rounded to bf16
 *     QUANT_INT8  int8 by rows: [a scale per row, fp32 | values]. A row's scale is its largest
 *                 magnitude / 127, and a value is w / scale, rounded to nearest even
 *     QUANT_NF4   4-bit NormalFloat by blocks of 64 values, with double quantisation (QLoRA, arXiv
 *                 2305.14314): [mean of the blocks' largest magnitudes | a scale per 256 blocks |
 *                 a byte per block | two values per byte, the first in the upper half]
 *
 * Each part begins at a multiple of 4 bytes, and all bytes between are zero. The bytes depend on
 * the matrix alone: they are the same for any number of threads. */
#pragma once

#include "data/base/dtype.h"

enum quant { QUANT_NONE, QUANT_BF16, QUANT_INT8, QUANT_NF4 };

/* Bytes of a packed matrix of (rows, cols), a multiple of 4. Not of QUANT_NONE. */
size_t quant_bytes(enum quant kind, size_t rows, size_t cols);

/* Packs w (rows, cols) into out, quant_bytes of them. All values must be finite. scratch: of
 * QUANT_NF4 nf4_blocks floats (nf4.h). Parallel. */
void quant_pack(enum quant kind, void *out, const float *w, size_t rows, size_t cols,
                float *scratch);

/* Writes the values of a packed matrix to out, rounded to dt (fp32 or bf16). Parallel. */
void quant_unpack(enum quant kind, void *out, enum dtype dt, const void *packed, size_t rows,
                  size_t cols);
