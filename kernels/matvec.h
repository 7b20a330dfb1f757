/* matvec.h: a few rows times a matrix, as generation needs them: one token a sequence. The matrix
 * is read once for all rows; every element of the result is a chain of fused multiply-adds in one
 * order, so a row's bits depend neither on the rows beside it nor on the threads (a product
 * engine's do). */
#ifndef KERNELS_MATVEC_H
#define KERNELS_MATVEC_H

#include "data/base/dtype.h"

/* c (m, n) of c_dt = a (m, k) b (k, n) + bias (n), all of `dt`, DT_F32 or DT_BF16; sums are fp32.
 * scratch: matvec_scratch() floats. */
void matvec_forward(void *c, enum dtype c_dt, const void *a, const void *b, const void *bias,
                    enum dtype dt, size_t m, size_t n, size_t k, float *scratch);

/* c (m, n) = a (m, k) b (n, k)': the logits. */
void matvec_logits(float *c, const void *a, const void *b, enum dtype dt, size_t m, size_t n,
                   size_t k, float *scratch);

static inline size_t matvec_scratch(size_t m, size_t n, size_t k) { return m * (n + k); }

#endif
