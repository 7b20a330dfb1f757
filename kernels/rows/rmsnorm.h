/* rmsnorm.h: normalisation by the root mean square over the last dimension: y = x * rstd * w
 * with rstd = 1 / sqrt(mean(x^2) + eps) (Zhang and Sennrich 2019). Llama, Qwen and Mistral use
 * it. Gemma uses y = x * rstd * (w + plus) with plus 1, so that weight decay pulls towards the
 * identity. There is no mean to subtract and no bias. Arithmetic is fp32 until y is stored. Rows
 * run in parallel. */
#pragma once

#include "data/base/dtype.h"

struct rmsnorm {
    size_t      n, C;
    enum dtype  dt;   // dtype of w and the normalised rows: DT_F32 or DT_BF16
    float      *x;    // (n, C)
    const void *w;    // (C)
    float      *rstd; // (n): written by forward, read by the others
    float       eps, plus;
};

/* Writes the normalised rows to out (n, C). */
void rmsnorm_forward(void *out, const struct rmsnorm *r);

/* Writes r->x = x + y and then normalises it, while each row is in cache. r->x overlaps neither
 * x nor y. */
void rmsnorm_residual(void *out, const float *x, const float *y, const struct rmsnorm *r);

/* out (n, C) = x + the normalised rows, which are not rounded in between. It is for a norm that
 * precedes the residual addition. It writes rstd; out may be x. */
void rmsnorm_add(float *out, const float *x, const struct rmsnorm *r);

struct rmsnorm_backward {
    const struct rmsnorm *r;
    const float *dout;     // (n, C)
    float       *dx;       // (n, C): added to, or written
    int          fresh;    // 1: dx is written; 0: added to
    float       *dw;       // (C) += its sums over rows, in the order of colsum_add (elementwise.h)
    bf16        *narrowed; // (n, C): receives dx rounded to bf16; or NULL
    void        *out;      // (n, C): receives the output of forward again; or NULL
    void        *scratch;  // colsum_scratch(n, C) bytes
};
void rmsnorm_backward(const struct rmsnorm_backward *b);

/* Heads in wider rows, each normalised on its own with one shared weight. Qwen3 does so with its
 * queries and with its keys before RoPE. A row has H heads of D elements side by side, for
 * example as a part of (n, (H + 2 KV) D). Backward needs the input of the normalisation, not its
 * output. */
struct rmsnorm_heads {
    size_t      n, H, D; // rows; heads in a row; elements of a head
    size_t      stride;  // distance of rows in x and in the output, in elements
    enum dtype  dt;      // dtype of x, w and the output: DT_F32 or DT_BF16
    const void *x;       // n rows
    const void *w;       // (D)
    float      *rstd;    // (n, H): written by forward, read by the others
    float       eps, plus;
};

/* out has the layout of x. It is x, or does not overlap it. Elements between the rows are
 * unchanged. */
void rmsnorm_heads_forward(void *out, const struct rmsnorm_heads *r);

struct rmsnorm_heads_backward {
    const struct rmsnorm_heads *r;
    void  *d;       // layout of x, dt: on entry the gradient of forward's output, on return that of
                    // x
    float *dw;      // (D) += its sums: the heads of a row in order, rows in the order of colsum_add
    void  *scratch; // colsum_scratch(n, D) bytes
};
void rmsnorm_heads_backward(const struct rmsnorm_heads_backward *b);
