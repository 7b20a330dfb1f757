/* softmax.h: losses: softmax with cross-entropy and its gradient, in one pass over each row; a
 * classifier's products and squared errors. */
#pragma once

#include "data/base/dtype.h"

struct softmax_xent {
    size_t         n, V;
    const float   *logits;  // columns [0, split) as (n, split), behind them (n, V - split)
    size_t         split;
    const int32_t *targets; // (n): below 0 it is ignored: loss 0, gradient row 0
    float         *losses;  // (n): -log softmax(logits)[target]
    void          *dlogits; // (n, V) dt: (softmax - onehot) * scale; NULL: losses only
    enum dtype     dt;
    float          scale;
};

/* dlogits may be `logits` where dt is DT_F32 and split is V. */
void softmax_xent(const struct softmax_xent *s);

/* A classifier's head: few outputs a row, a plain loop for what is too small for the products. */
struct score {
    size_t      n, L, C;
    enum dtype  dt;
    const void *x; // (n, C) dt
    const void *w; // (L, C) dt
};

/* logits (n, L) = x w'; sums in fp32, of a fixed order. */
void score_forward(float *logits, const struct score *s);

/* logits (n, L) += bias (L) of `dt`, where the head has one. */
void score_bias(float *logits, const void *bias, enum dtype dt, size_t n, size_t L);

/* dx (n, C) = dlogits w, written; dw (L, C) += dlogits' x, rows in order. dlogits (n, L). */
void score_backward(float *dx, float *dw, const float *dlogits, const struct score *s);

/* losses (n): (predicted - value)^2; dpredicted (n): its gradient times scale, or NULL; may be
 * `predicted`. A row of label < 0 does not count: 0 and 0. */
void score_squares(float *losses, float *dpredicted, const float *predicted, const float *value,
                   const int32_t *label, size_t n, float scale);
