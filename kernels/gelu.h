/* gelu.h: GELU in its tanh form, 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
 * (Hendrycks and Gimpel 2016; GPT-2's gelu_new). Element-wise over n elements. */
#ifndef KERNELS_GELU_H
#define KERNELS_GELU_H

#include "kernels/dtype.h"

/* out[i] = gelu(x[i]), both of dtype `dt`. */
void gelu_forward(void *out, const void *x, enum dtype dt, size_t n);

/* dx[i] = dout[i] * gelu'(x[i]); dx and x of `dt`, dout fp32. */
void gelu_backward(void *dx, const float *dout, const void *x, enum dtype dt, size_t n);

#endif
