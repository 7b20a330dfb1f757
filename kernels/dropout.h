/* dropout.h: inverted dropout (Srivastava et al., JMLR 2014) with counter-based masks: whether an
 * element stays is a function of (seed, site, row, column) alone, so that a pass that is computed
 * again drops the same, whatever the threads, tiles or memory. An element stays with probability 1
 * - p, p taken as round(p x 65536) / 65536, and is then divided by 1 - p. One call of Philox
 * 4x32-10 (kernels/rng.h's) decides 8 elements of a row, 16 bits each. */
#pragma once

#include "data/base/dtype.h"

#include <stddef.h>
#include <stdint.h>

struct dropout {
    float    p;    // 0: nothing is dropped; below 1
    uint64_t seed;
    uint64_t site; // which use of a mask: the caller packs step, micro-batch, layer and place into
                   // it
};

enum { DROPOUT_SPAN = 64 }; // columns that are decided together

/* out[i][j] = factor(first + i, j) x[i][j] for (n, C); factor 0 or 1/(1-p). out may be x. Its own
 * backward. Parallel. */
void dropout_rows(float *out, const float *x, size_t n, size_t C, size_t first,
                  const struct dropout *d);

/* The factors of DROPOUT_SPAN rows from `row` on and as many columns from `column` on, a multiple
 * of it, transposed: factor (columns, rows). Not parallel: for use inside kernels. */
void dropout_tile(float *factor, uint64_t row, size_t column, const struct dropout *d);
