/* pool.h: an encoder's pooler, between the last layer and a classifier's head. It computes
 * tanh(x W' + b) of each row's first token. Dropout follows it, and in some families also
 * precedes it (arch.h). */
#pragma once

#include "model/layer/model.h"

struct pool {
    const struct model *m;
    const void         *wire;   // parameters of the final norm's block
    size_t              micro, n; // the micro-batch; its number of rows
    float              *x;      // (n, C): the first tokens; dropout is applied in place
    void               *narrow; // (n, C) dt: x as the kernel takes it
    float              *pooled; // (n, C): the output, written by forward and read by backward
    float              *work;   // (n, C): scratch of forward, in passes with dropout
};

/* Writes the pooled rows to out (n, C), in the run's dtype. */
void pool_forward(void *out, const struct pool *p);
/* Writes dx (n, C) from dout (n, C), which it overwrites. Adds the parameters' gradients to
 * grad. */
void pool_backward(const struct pool *p, float *grad, float *dx, float *dout);
