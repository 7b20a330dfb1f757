/* softmax.h: softmax with cross-entropy and its gradient, in one pass over each row. */
#ifndef KERNELS_SOFTMAX_H
#define KERNELS_SOFTMAX_H

#include "data/base/dtype.h"

/* losses (n): -log softmax(logits)[target]; dlogits (n, V) of `dt`: (softmax - onehot) * scale.
 * logits: columns [0, split) as (n, split), behind them the others as (n, V - split). dlogits NULL:
 * losses only. dlogits may be `logits` where dt is DT_F32 and split is V. A target < 0 is ignored:
 * loss 0, gradient row 0. */
void softmax_xent(float *losses, void *dlogits, enum dtype dt, const float *logits,
                  const int32_t *targets, size_t n, size_t V, size_t split, float scale);

#endif
