/* dropout.h: inverted dropout (Srivastava et al., JMLR 2014) with counter-based masks. The mask
 * of an element depends only on (seed, site, row, column). A recomputed pass therefore drops the
 * same elements, for any threads, tiles or memory. An element is kept with probability 1 - p,
 * and is then divided by 1 - p. p is rounded to round(p x 65536) / 65536. One call of Philox
 * 4x32-10 (rng.h) decides 8 elements of a row, 16 bits each. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct dropout {
    float    p;    // dropout probability, below 1; 0: no dropout
    uint64_t seed;
    uint64_t site; // the use of the mask: the caller packs step, micro-batch, layer and place into
                   // it
};

enum { DROPOUT_SPAN = 64 }; // columns whose masks are computed together

/* out[i][j] = factor(first + i, j) x[i][j] for (n, C); a factor is 0 or 1/(1-p). out may be x.
 * Backward is the same function. Parallel. */
void dropout_rows(float *out, const float *x, size_t n, size_t C, size_t first,
                  const struct dropout *d);

/* The factors of DROPOUT_SPAN rows from `row` on and DROPOUT_SPAN columns from `column` on,
 * transposed: factor (columns, rows). `column` must be a multiple of DROPOUT_SPAN. Not parallel:
 * for use inside kernels. */
void dropout_tile(float *factor, uint64_t row, size_t column, const struct dropout *d);
