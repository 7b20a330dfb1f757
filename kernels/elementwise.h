/* elementwise.h: the small passes between products: conversion, sums of rows, residuals, GELU,
 * embeddings. */
#pragma once

#include "data/base/dtype.h"

/* out[i] = x[i] in another format, in any pair; rounded to nearest even. */
void convert(void *out, enum dtype out_dt, const void *x, enum dtype x_dt, size_t n);

void floats_zero(float *x, size_t n);
void copy_wide(void *out, const void *x, size_t n); // bytes, by all threads

/* out[i] = a[i] + b[i]; out may be a or b. row_add is one thread's, for a kernel's own. */
void row_add(float *out, const float *a, const float *b, size_t n);
void residual_add(float *out, const float *a, const float *b, size_t n);

/* db[j] += sum over rows of dy[i][j]; dy (n, C) of `dt`; fixed groups of COLSUM_ROWS rows in order,
 * whatever the threads. narrowed (n, C), or NULL: the same pass rounds dy, which is DT_F32 then.
 * scratch: colsum_scratch(n, C) bytes. */
enum { COLSUM_ROWS = 32 };
void   colsum_add(float *db, bf16 *narrowed, const void *dy, enum dtype dt, size_t n, size_t C,
                  void *scratch);
size_t colsum_scratch(size_t n, size_t C);

/* Its two halves, for a kernel that sums while it computes. A group of rows: their sums are written
 * to `sum`, and rounded rows where `narrowed` is. Then part (groups of COLSUM_ROWS rows, C) is
 * added to db in order, in the parallel region that made the groups, behind a barrier: its threads
 * share the columns out. A region of its own would start all threads once more each time. */
void colsum_group(float *sum, bf16 *narrowed, const void *dy, enum dtype dt, size_t rows, size_t C);
void colsum_finish(float *db, const float *part, size_t n, size_t C);

/* GELU in its tanh form, 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) (Hendrycks and Gimpel
 * 2016; GPT-2's gelu_new): out[i] = gelu(x[i]), both of dtype `dt`. */
void gelu_forward(void *out, const void *x, enum dtype dt, size_t n);

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

/* out (B, T, C) = wte[tokens[b][t]] + wpe[t]; wte (V, C), wpe (T, C) of `dt`; tokens (B, T). */
void embedding_forward(float *out, const void *wte, const void *wpe, enum dtype dt,
                       const int32_t *tokens, size_t B, size_t T, size_t C);

/* dwte[tokens[b][t]] += dout[b][t], dwpe[t] += dout[b][t]; the order of sums is by (b, t), whatever
 * the threads (they share out the columns). */
void embedding_backward(float *dwte, float *dwpe, const float *dout, const int32_t *tokens,
                        size_t B, size_t T, size_t C);
