/* elementwise.h: small elementwise kernels between products: conversion, sums of rows, residual
 * additions, tanh, embeddings. */
#pragma once

#include "data/base/dtype.h"

/* out[i] = x[i], converted between any two formats, rounded to nearest even. */
void convert(void *out, enum dtype out_dt, const void *x, enum dtype x_dt, size_t n);

void floats_zero(float *x, size_t n);
void floats_scale(float *x, float by, size_t n);
void copy_wide(void *out, const void *x, size_t n); // n bytes, copied by all threads

/* out[i] = a[i] + b[i]; out may be a or b. row_add runs on the calling thread, for use inside
 * kernels. */
void row_add(float *out, const float *a, const float *b, size_t n);
void residual_add(float *out, const float *a, const float *b, size_t n);

/* db[j] += sum over rows of dy[i][j], for dy (n, C) of `dt`. Rows are summed in fixed groups of
 * COLSUM_ROWS, in order, for any number of threads. narrowed (n, C): also receives dy rounded to
 * bf16, if dy is DT_F32; or NULL. scratch: colsum_scratch(n, C) bytes. */
enum { COLSUM_ROWS = 32 };
void   colsum_add(float *db, bf16 *narrowed, const void *dy, enum dtype dt, size_t n, size_t C,
                  void *scratch);
size_t colsum_scratch(size_t n, size_t C);

/* The two halves of colsum_add, for a kernel that sums while it computes. colsum_group writes
 * the sums of one group of rows to `sum`, and rounds the rows to `narrowed` unless it is NULL.
 * colsum_finish adds part (groups of COLSUM_ROWS rows, C) to db in order. Call it behind a
 * barrier, in the parallel region that made the groups; its threads share the columns. A
 * separate region would have to start all threads again. */
void colsum_group(float *sum, bf16 *narrowed, const void *dy, enum dtype dt, size_t rows, size_t C);
void colsum_finish(float *db, const float *part, size_t n, size_t C);

/* y[i] = tanh(x[i]), both of dtype `dt`, DT_F32 or DT_BF16; y may be x. For BERT's pooler. */
void tanh_forward(void *y, const void *x, enum dtype dt, size_t n);

/* dx[i] = dy[i] (1 - y[i]^2); dx and y have dtype `dt`; dx may be y. */
void tanh_backward(void *dx, const float *dy, const void *y, enum dtype dt, size_t n);

/* out (B, T, C) = wte[tokens[b][t]] + wpe[t], with wte (V, C) and wpe (T, C) of `dt`, tokens (B,
 * T). If positions begin at p, wpe points to row p of the table. RoBERTa's begin at 2, and a
 * continued sequence's at its length. */
void embedding_forward(float *out, const void *wte, const void *wpe, enum dtype dt,
                       const int32_t *tokens, size_t B, size_t T, size_t C);

/* dwte[tokens[b][t]] += dout[b][t], dwpe[t] += dout[b][t]. Sums are in the order of (b, t) for
 * any number of threads, which share the columns. Either may be NULL and is then skipped. */
void embedding_backward(float *dwte, float *dwpe, const float *dout, const int32_t *tokens,
                        size_t B, size_t T, size_t C);

/* Embeddings without positions (for models with RoPE), from a piece of the table: only rows
 * [first, first + rows) are at wte and dwte. Only those of the n tokens whose row is in the
 * piece are handled. Other rows of out are unchanged. */
struct embedding_piece { size_t first, rows; };
void embedding_piece_forward(float *out, const void *wte, enum dtype dt,
                             struct embedding_piece piece, const int32_t *tokens, size_t n,
                             size_t C);
void embedding_piece_backward(float *dwte, const float *dout, struct embedding_piece piece,
                              const int32_t *tokens, size_t n, size_t C);

/* out[i] += table[ids[i]], i < n: an additional embedding, of token types. table (rows, C) of
 * `dt`. embedding_piece_backward computes its gradient. */
void embedding_add(float *out, const void *table, enum dtype dt, const int32_t *ids, size_t n,
                   size_t C);
