/* gelu.h: the Gaussian error linear unit (Hendrycks and Gimpel 2016) in two forms. The exact
 * form is x F(x) with the normal distribution F(x) = (1 + erf(x / sqrt 2)) / 2. BERT uses it
 * ("gelu" in config.json). The tanh form is an approximation, 0.5 x (1 + tanh(sqrt(2/pi) (x +
 * 0.044715 x^3))). GPT-2 uses it ("gelu_new"). Arithmetic is fp32, and results are rounded once.
 * Chunks run in parallel. */
#pragma once

#include "data/base/dtype.h"

/* out[i] = gelu(x[i]), both of dtype `dt`, DT_F32 or DT_BF16. gelu_forward is the tanh form,
 * gelu_erf_forward the exact one. */
void gelu_forward(void *out, const void *x, enum dtype dt, size_t n);
void gelu_erf_forward(void *out, const void *x, enum dtype dt, size_t n);

/* Backward computes value and slope in one pass, because they share an exponential. */
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
