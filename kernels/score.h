/* score.h: a classifier's head: few outputs a row, a plain loop for what is too small for the
 * products. */
#ifndef KERNELS_SCORE_H
#define KERNELS_SCORE_H

#include "data/base/dtype.h"

#include <stddef.h>

/* logits (n, L) = x (n, C) w (L, C)'; x and w of `dt`; sums in fp32, of a fixed order. */
void score_forward(float *logits, const void *x, const void *w, enum dtype dt, size_t n, size_t L,
                   size_t C);

/* dx (n, C) = dlogits w, written; dw (L, C) += dlogits' x, rows in order. dlogits (n, L). */
void score_backward(float *dx, float *dw, const float *dlogits, const void *x, const void *w,
                    enum dtype dt, size_t n, size_t L, size_t C);

/* losses (n): (predicted - value)^2; dpredicted (n): its gradient times scale, or NULL; may be
 * `predicted`. A row of label < 0 does not count: 0 and 0. */
void score_squares(float *losses, float *dpredicted, const float *predicted, const float *value,
                   const int32_t *label, size_t n, float scale);

#endif
