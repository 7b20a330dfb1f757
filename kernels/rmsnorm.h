/* rmsnorm.h: normalisation by the root mean square over the last dimension, y = x * rstd * w with
 * rstd = 1 / sqrt(mean(x^2) + eps) (Zhang and Sennrich 2019; as Llama, Qwen and Mistral have it),
 * or y = x * rstd * (w + plus) with plus 1, where a weight decays towards what changes nothing
 * (Gemma). There is no mean to take off and no bias. All of it is fp32 until y is stored. Rows run
 * in parallel. */
#pragma once

#include "data/base/dtype.h"

struct rmsnorm {
    size_t      n, C;
    enum dtype  dt;   // of w and the normalised rows: DT_F32 or DT_BF16
    float      *x;    // (n, C)
    const void *w;    // (C)
    float      *rstd; // (n): written by forward, read by the others
    float       eps, plus;
};

/* out (n, C): the normalised rows. */
void rmsnorm_forward(void *out, const struct rmsnorm *r);

/* The same of r->x = x + y, written first: a residual added and normalised while its row is in
 * cache. r->x overlaps neither. */
void rmsnorm_residual(void *out, const float *x, const float *y, const struct rmsnorm *r);

/* out (n, C) = x + the normalised rows, which are not rounded between: a norm behind what is added
 * to the residual stream. It writes rstd; out may be x. */
void rmsnorm_add(float *out, const float *x, const struct rmsnorm *r);

struct rmsnorm_backward {
    const struct rmsnorm *r;
    const float *dout;     // (n, C)
    float       *dx;       // (n, C) +=, or written
    int          fresh;    // dx is written
    float       *dw;       // (C) += its sums over rows as colsum_add takes them (elementwise.h)
    bf16        *narrowed; // (n, C): dx rounded in that pass; or NULL
    void        *out;      // (n, C): what forward wrote, once more in that pass; or NULL
    void        *scratch;  // colsum_scratch(n, C) bytes
};
void rmsnorm_backward(const struct rmsnorm_backward *b);

/* Heads inside wider rows, each normalised on its own with one weight, as Qwen3 does with its
 * queries and with its keys before they are turned: H heads of D elements side by side in each row,
 * of a part of (n, (H + 2 KV) D) for example. What they are normalised from is what backward
 * needs. */
struct rmsnorm_heads {
    size_t      n, H, D; // rows, heads in each, elements of a head
    size_t      stride;  // elements from a row to the next one, of x and of what is written
    enum dtype  dt;      // of x, w and what is written: DT_F32 or DT_BF16
    const void *x;       // n rows
    const void *w;       // (D)
    float      *rstd;    // (n, H): written by forward, read by the others
    float       eps, plus;
};

/* out: rows as x has them; it may be x, or overlaps it nowhere. What is between the rows stays. */
void rmsnorm_heads_forward(void *out, const struct rmsnorm_heads *r);

struct rmsnorm_heads_backward {
    const struct rmsnorm_heads *r;
    void  *d;       // rows as x has them, dt: on entry of what forward wrote, on return of x
    float *dw;      // (D) += its sums: a row's heads in order, rows as colsum_add takes them
    void  *scratch; // colsum_scratch(n, D) bytes
};
void rmsnorm_heads_backward(const struct rmsnorm_heads_backward *b);
