/* pool.h: an encoder's pooler, which stands between the last layer and a classifier's head:
 * tanh(x W' + b) of each row's first token, with dropout behind it and, in some families, in front
 * of it (arch.h). */
#pragma once

#include "model/model.h"

struct pool {
    const struct model *m;
    const void         *wire;   // of block n_layer + 1
    size_t              micro, n; // the micro-batch, and its rows
    float              *x;      // (n, C): the first tokens; dropped in place
    void               *narrow; // (n, C) dt: x as the kernel takes it
    float              *pooled; // (n, C): written by forward, read by backward
    float              *work;   // (n, C): forward's, where a pass drops
};

/* out (n, C) of the run's dtype. */
void pool_forward(void *out, const struct pool *p);
/* From dout (n, C), which is written over: dx (n, C) is written, gradients are added to grad's. */
void pool_backward(const struct pool *p, float *grad, float *dx, float *dout);
