/* gelu.h: GELU in its tanh form, 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
 * (Hendrycks and Gimpel 2016; GPT-2's gelu_new). Element-wise over n elements. */
#pragma once

#include "data/base/dtype.h"

/* out[i] = gelu(x[i]), both of dtype `dt`. */
void gelu_forward(void *out, const void *x, enum dtype dt, size_t n);

/* One pass, for value and slope share an exponential. */
struct gelu_backward {
    size_t       n, C;
    enum dtype   dt;
    const void  *x;       // (n, C) dt
    const float *dout;    // (n, C)
    void        *out;     // (n, C) dt: gelu(x), the bits of forward
    void        *dx;      // (n, C) dt: dout gelu'(x)
    float       *db;      // (C) += the sums of dx's columns, as colsum_add takes them
    void        *scratch; // colsum_scratch(n, C) bytes
};
void gelu_backward(const struct gelu_backward *g);
