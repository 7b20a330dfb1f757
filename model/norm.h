/* norm.h: the norm behind the last layer, of the kind that the family has. */
#pragma once

#include "model/model.h"

struct norm {
    const struct model *m;
    const void         *wire;  // of block n_layer + 1
    size_t              n;     // rows
    float              *x;     // (n, C)
    float              *mean, *rstd; // (n); RMSNorm has no mean
};

/* out (n, C) of the run's dtype. */
void norm_forward(void *out, const struct norm *n);
/* From dout (n, C): dx (n, C) is written, the norm's own gradients are added to grad's. */
void norm_backward(const struct norm *n, float *grad, float *dx, const float *dout);
