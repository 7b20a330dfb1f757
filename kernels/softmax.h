/* softmax.h: softmax with cross-entropy and its gradient, in one pass over each row. */
#ifndef KERNELS_SOFTMAX_H
#define KERNELS_SOFTMAX_H

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

#endif
