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
    /* Where the normalised rows are the residual stream, as in BERT (post-norm): they go to
     * wide (n, C) unrounded, too, and out may be NULL, where nobody wants them rounded; or NULL.
     * wide and out overlap neither each other nor x. */
    float      *wide;
};

/* out (n, C): the normalised rows. */
void layernorm_forward(void *out, const struct layernorm *l);

/* The same of l->x = x + y, written first: a residual added and normalised while its row is in
 * cache. l->x overlaps neither. */
void layernorm_residual(void *out, const float *x, const float *y, const struct layernorm *l);

/* The normalised rows once more, from the saved mean and rstd: the same bits as forward gave. */
void layernorm_apply(void *out, const struct layernorm *l);

struct layernorm_backward {
    const struct layernorm *l;
    const float *dout;     // (n, C)
    float       *dx;       // (n, C) +=, or written
    int          fresh;    // dx is written
    float       *dw, *db;  // (C) += their sums over rows as colsum_add takes them (elementwise.h)
    float       *dx_sums;  // (C) += what colsum_add of dx would add, while dx is in cache; or NULL
    bf16        *narrowed; // (n, C): dx rounded in that pass; or NULL
    void        *out;      // (n, C): what forward wrote, once more in that pass; or NULL
    void        *scratch;  // colsum_scratch(n, 3 * C) bytes
};
void layernorm_backward(const struct layernorm_backward *b);
