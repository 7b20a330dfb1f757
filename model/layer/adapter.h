/* adapter.h: the arithmetic of adapters (lora.h), on rows (tokens) of a layer. A product of a
 * layer's matrix runs with the adapters of its tensors behind it: out = in W + b, and then, in the
 * columns of each adapted tensor,
 *
 *     h = scale dropout(in) A',  out += h B'
 *
 * and backward, with dh = scale dout B: dB += dout' h, dA += dh' dropout(in), din += dropout(dh A).
 * Backward computes h again, and dh once. Sums are fp32. In bf16, h, dh and dropout(in) are
 * rounded, as operands of products, and out and din are rounded after each addition if they are
 * bf16. */
#pragma once

#include "model/layer/model.h"

/* A layer's adapter. */
struct adapter {
    const void    *wire; // its parameters; NULL: the model has none
    float         *grad; // backward only
    struct dropout drop; // model_dropout_adapter
};

struct adapter_rows {
    const struct model     *m;
    struct adapter          of;
    const struct acts_work *w;
    size_t n;      // rows
    size_t padded; // rows of the products; 0: single tokens (layer.h)
    size_t first;  // index of the first row in its micro-batch
};

/* The family's matrix `matrix` has been multiplied: out and din are complete but for the
 * adapters. Without adapters these functions do nothing. */
void adapter_forward(const struct adapter_rows *a, size_t matrix, void *out, const void *in);
void adapter_back(const struct adapter_rows *a, size_t matrix, void *din, const void *dout);
/* Adds to the gradients of A and B. adapter_back of the same matrix and rows has run before it, and
 * left dh; no adapter_back of another matrix came between them. */
void adapter_gradient(const struct adapter_rows *a, size_t matrix, const void *in,
                      const void *dout);
