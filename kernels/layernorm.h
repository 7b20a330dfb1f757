/* layernorm.h: layer normalisation over the last dimension, y = (x - mean) * rstd * w + b
 * (Ba, Kiros, Hinton 2016; variance over C, not C - 1, as PyTorch). Rows run in parallel. */
#pragma once

#include "data/base/dtype.h"

struct layernorm {
    size_t      n, C;
    enum dtype  dt;          // of w, b and the normalised rows
    float      *x;           // (n, C)
    const void *w, *b;       // (C)
    float      *mean, *rstd; // (n): written by forward, read by the others
    float       eps;
};

/* out (n, C): the normalised rows. */
void layernorm_forward(void *out, const struct layernorm *l);

/* The same of l->x = x + y, written first: a residual added and normalised while its row is in
 * cache. l->x overlaps neither. */
void layernorm_residual(void *out, const float *x, const float *y, const struct layernorm *l);

/* The normalised rows once more, from the saved mean and rstd: the same bits as forward gave. */
void layernorm_apply(void *out, const struct layernorm *l);

/* dx (n, C) += ; dw, db (C) += , their sums over rows as colsum_add takes them (elementwise.h);
 * dout (n, C). scratch: colsum_scratch(n, 2 * C) bytes. */
void layernorm_backward(float *dx, float *dw, float *db, const float *dout,
                        const struct layernorm *l, void *scratch);
