/* layernorm.h: layer normalisation over the last dimension, y = (x - mean) * rstd * w + b (Ba,
 * Kiros, Hinton 2016). As in PyTorch, the variance divides by C, not C - 1. Rows run in
 * parallel. */
#pragma once

#include "data/base/dtype.h"

struct layernorm {
    size_t      n, C;
    enum dtype  dt;          // dtype of w, b and the normalised rows
    float      *x;           // (n, C)
    const void *w, *b;       // (C)
    float      *mean, *rstd; // (n): written by forward, read by the other functions
    float       eps;
    /* (n, C), or NULL: also receives the normalised rows unrounded. In post-norm models (BERT)
     * these rows are the residual stream. out may then be NULL, if the rounded rows are not
     * needed. wide and out overlap neither each other nor x. */
    float      *wide;
};

/* Writes the normalised rows to out (n, C). */
void layernorm_forward(void *out, const struct layernorm *l);

/* Writes l->x = x + y and then normalises it, while each row is in cache. l->x overlaps neither
 * x nor y. */
void layernorm_residual(void *out, const float *x, const float *y, const struct layernorm *l);

/* Recomputes the normalised rows from the saved mean and rstd, with the bits of forward. */
void layernorm_apply(void *out, const struct layernorm *l);

struct layernorm_backward {
    const struct layernorm *l;
    const float *dout;     // (n, C)
    float       *dx;       // (n, C): added to, or written
    int          fresh;    // 1: dx is written; 0: added to
    float       *dw, *db;  // (C) += their sums over rows, in the order of colsum_add
                           // (elementwise.h)
    float       *dx_sums;  // (C) += the result of colsum_add for dx, while dx is in cache; or NULL
    bf16        *narrowed; // (n, C): receives dx rounded to bf16; or NULL
    void        *out;      // (n, C): receives the output of forward again; or NULL
    void        *scratch;  // colsum_scratch(n, 3 * C) bytes
};
void layernorm_backward(const struct layernorm_backward *b);
