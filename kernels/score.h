/* score.h: a classifier's head: few outputs a row, a plain loop for what is too small for the
 * products. */
#ifndef KERNELS_SCORE_H
#define KERNELS_SCORE_H

#include "data/base/dtype.h"

#include <stddef.h>

struct score {
    size_t      n, L, C;
    enum dtype  dt;
    const void *x; // (n, C) dt
    const void *w; // (L, C) dt
};

/* logits (n, L) = x w'; sums in fp32, of a fixed order. */
void score_forward(float *logits, const struct score *s);

/* dx (n, C) = dlogits w, written; dw (L, C) += dlogits' x, rows in order. dlogits (n, L). */
void score_backward(float *dx, float *dw, const float *dlogits, const struct score *s);

/* losses (n): (predicted - value)^2; dpredicted (n): its gradient times scale, or NULL; may be
 * `predicted`. A row of label < 0 does not count: 0 and 0. */
void score_squares(float *losses, float *dpredicted, const float *predicted, const float *value,
                   const int32_t *label, size_t n, float scale);

#endif
