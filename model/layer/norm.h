/* norm.h: the final norm, which follows the last layer. It is a layernorm or RMSNorm, by the
 * family. */
#pragma once

#include "model/layer/model.h"

struct norm {
    const struct model *m;
    const void         *wire;  // parameters of the final norm's block
    size_t              n;     // rows
    float              *x;     // (n, C)
    float              *mean, *rstd; // (n); RMSNorm has no mean
};

/* Writes the normalised rows to out (n, C), in the run's dtype. */
void norm_forward(void *out, const struct norm *n);
/* Writes dx (n, C) from dout (n, C), and adds the gradients of the norm's parameters to grad. */
void norm_backward(const struct norm *n, float *grad, float *dx, const float *dout);
