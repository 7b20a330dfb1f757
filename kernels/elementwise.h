/* elementwise.h: the small passes between products: conversion, sums of rows, residuals, tanh,
 * embeddings. */
#pragma once

#include "data/base/dtype.h"

/* out[i] = x[i] in another format, in any pair; rounded to nearest even. */
void convert(void *out, enum dtype out_dt, const void *x, enum dtype x_dt, size_t n);

void floats_zero(float *x, size_t n);
void floats_scale(float *x, float by, size_t n);
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

/* y[i] = tanh(x[i]), both of dtype `dt`, DT_F32 or DT_BF16; y may be x: BERT's pooler. */
void tanh_forward(void *y, const void *x, enum dtype dt, size_t n);

/* dx[i] = dy[i] (1 - y[i]^2), dx of `dt` as y is; dx may be y. */
void tanh_backward(void *dx, const float *dy, const void *y, enum dtype dt, size_t n);

/* out (B, T, C) = wte[tokens[b][t]] + wpe[t]; wte (V, C), wpe (T, C) of `dt`; tokens (B, T). Where
 * positions begin at p (RoBERTa's at 2; a sequence that goes on), wpe is that table's row p. */
void embedding_forward(float *out, const void *wte, const void *wpe, enum dtype dt,
                       const int32_t *tokens, size_t B, size_t T, size_t C);

/* dwte[tokens[b][t]] += dout[b][t], dwpe[t] += dout[b][t]; the order of sums is by (b, t), whatever
 * the threads (they share out the columns). One of both may be NULL, which is left out. */
void embedding_backward(float *dwte, float *dwpe, const float *dout, const int32_t *tokens,
                        size_t B, size_t T, size_t C);

/* Without positions (Llama, whose heads are turned), of a table of which only the rows [first,
 * first + rows) are here, at wte and dwte: the n tokens as far as they are among them; rows of out
 * of others stay as they are. */
struct embedding_piece { size_t first, rows; };
void embedding_piece_forward(float *out, const void *wte, enum dtype dt,
                             struct embedding_piece piece, const int32_t *tokens, size_t n,
                             size_t C);
void embedding_piece_backward(float *dwte, const float *dout, struct embedding_piece piece,
                              const int32_t *tokens, size_t n, size_t C);

/* out[i] += table[ids[i]], i < n: a further embedding, of token types. table (rows, C) of `dt`. Its
 * gradient is embedding_piece_backward's. */
void embedding_add(float *out, const void *table, enum dtype dt, const int32_t *ids, size_t n,
                   size_t C);
