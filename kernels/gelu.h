/* gelu.h: GELU in its tanh form, 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
 * (Hendrycks and Gimpel 2016; GPT-2's gelu_new). Element-wise over n elements. */
#ifndef KERNELS_GELU_H
#define KERNELS_GELU_H

#include "data/base/dtype.h"

/* out[i] = gelu(x[i]), both of dtype `dt`. */
void gelu_forward(void *out, const void *x, enum dtype dt, size_t n);

/* out = gelu(x), the bits of forward; dx = dout gelu'(x); db[j] += sum over rows of dx[i][j], as
 * colsum_add sums them. x, out, dx (n, C) of `dt`, dout (n, C) and db (C) fp32; scratch:
 * colsum_scratch(n, C) bytes. One pass: value and slope share an exponential. */
void gelu_backward(void *out, void *dx, float *db, const float *dout, const void *x, enum dtype dt,
                   size_t n, size_t C, void *scratch);

#endif
