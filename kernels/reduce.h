/* reduce.h: sums over long vectors in one fixed order, whatever the threads: double partial sums of
 * REDUCE_BLOCK elements, each in a fixed lane order, added up in order of their blocks. */
#pragma once

#include "data/base/dtype.h"

enum { REDUCE_BLOCK = 16384 };

/* Sum of squares of x[0..n) and whether any element is NaN or infinite (*nonfinite set to 1, else
 * left). scratch: reduce_scratch(n) bytes. */
double reduce_sumsq(const float *x, size_t n, int *nonfinite, void *scratch);
size_t reduce_scratch(size_t n);
/* The partial sums alone, one for each REDUCE_BLOCK elements. */
void   reduce_sums(double *sums, const float *x, size_t n);

/* The index of the largest of x[0..n), n > 0; ties to the lower one. */
size_t reduce_argmax(const float *x, size_t n);
