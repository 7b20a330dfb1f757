/* gelu.h: the Gaussian error linear unit (Hendrycks and Gimpel 2016) in two forms: x F(x) with the
 * normal distribution F(x) = (1 + erf(x / sqrt 2)) / 2, as BERT has it ("gelu" in a config.json),
 * and 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), which is near it, GPT-2's ("gelu_new").
 * Arithmetic is fp32, results are rounded once. Chunks run in parallel. */
#pragma once

#include "data/base/dtype.h"

/* out[i] = gelu(x[i]), both of dtype `dt`, DT_F32 or DT_BF16: the tanh form, and the exact one. */
void gelu_forward(void *out, const void *x, enum dtype dt, size_t n);
void gelu_erf_forward(void *out, const void *x, enum dtype dt, size_t n);

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
void gelu_erf_backward(const struct gelu_backward *g);
