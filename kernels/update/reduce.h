/* reduce.h: sums over long vectors in one fixed order, for any number of threads. Blocks of
 * REDUCE_BLOCK elements are summed in double, in a fixed order of lanes. The block sums are then
 * added in the order of their blocks. */
#pragma once

#include "data/base/dtype.h"

enum { REDUCE_BLOCK = 16384 };

/* The sum of squares of x[0..n). Sets *nonfinite to 1 if an element is NaN or infinite;
 * otherwise leaves it. scratch: reduce_scratch(n) bytes. */
double reduce_sumsq(const float *x, size_t n, int *nonfinite, void *scratch);
size_t reduce_scratch(size_t n);
/* Only the block sums, one for each REDUCE_BLOCK elements. */
void   reduce_sums(double *sums, const float *x, size_t n);

/* The index of the largest of x[0..n), n > 0; ties to the lower one. */
size_t reduce_argmax(const float *x, size_t n);
