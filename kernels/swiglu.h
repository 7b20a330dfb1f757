/* swiglu.h: the gated unit silu(gate) * up between an MLP's products, silu(x) = x / (1 + e^-x)
 * (Shazeer 2020; as Llama, Qwen and Mistral have it), or gelu(gate) * up with gelu.h's tanh form
 * (GeGLU; Gemma). gate and up may be matrices of their own
 * (stride F), or the halves of one product's rows (up = gate + F, stride 2 F). Arithmetic is fp32,
 * results are rounded once. Rows run in parallel. */
#pragma once

#include "data/base/dtype.h"

enum glu_form { GLU_SILU, GLU_GELU };

struct swiglu {
    size_t      n, F;      // rows, and hidden elements in each
    size_t      stride;    // elements from a row of gate to the next one, and of up; at least F
    enum dtype  dt;        // DT_F32 or DT_BF16
    const void *gate, *up; // n rows of F, dt
    enum glu_form form;
};

/* out (n, F) dt: the unit. It overlaps neither. */
void swiglu_forward(void *out, const struct swiglu *s);

/* One pass, for value and slopes share an exponential. Nothing that is written overlaps anything
 * else. */
struct swiglu_backward {
    const struct swiglu *s;
    const float         *dout;        // (n, F)
    void                *out;         // (n, F) dt: the bits of forward once more
    void                *dgate, *dup; // dt, written; rows as far apart as those of gate and up
};
void swiglu_backward(const struct swiglu_backward *b);
