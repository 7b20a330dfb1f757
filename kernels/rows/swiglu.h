/* swiglu.h: the gated unit silu(gate) * up between an MLP's products, with silu(x) = x / (1 +
 * e^-x) (Shazeer 2020). Llama, Qwen and Mistral use it. Gemma uses GeGLU, gelu(gate) * up with
 * gelu.h's tanh form. gate and up may be separate matrices (stride F), or the halves of one
 * product's rows (up = gate + F, stride 2 F). Arithmetic is fp32, and results are rounded once.
 * Rows run in parallel. */
#pragma once

#include "data/base/dtype.h"

enum glu_form { GLU_SILU, GLU_GELU };

struct swiglu {
    size_t      n, F;      // rows; hidden elements in a row
    size_t      stride;    // distance of rows in gate and in up, in elements; at least F
    enum dtype  dt;        // DT_F32 or DT_BF16
    const void *gate, *up; // n rows of F, dt
    enum glu_form form;
};

/* Writes the result to out (n, F) dt, which overlaps neither gate nor up. */
void swiglu_forward(void *out, const struct swiglu *s);

/* Backward computes value and slopes in one pass, because they share an exponential. No written
 * array overlaps any other array. */
struct swiglu_backward {
    const struct swiglu *s;
    const float         *dout;        // (n, F)
    void                *out;         // (n, F) dt: receives the output of forward again, with its
                                      // bits
    void                *dgate, *dup; // dt, written; the rows have the stride of gate and up
};
void swiglu_backward(const struct swiglu_backward *b);
