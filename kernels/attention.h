/* attention.h: causal multi-head attention, softmax(q k' / sqrt(hs)) v, in tiles: no T x T
 * matrix ever exists (Dao et al. 2022). Sums are fp32; inputs and outputs of products are `dt`. The
 * tile sizes are fixed, the result depends on neither threads nor the batch a row stands in; in
 * bf16 it depends on whether the CPU has AVX512-BF16 or AMX (attention_form.h). */
#ifndef KERNELS_ATTENTION_H
#define KERNELS_ATTENTION_H

#include "kernels/dropout.h"
#include "data/base/dtype.h"

/* out (B, T, C) of `dt`; lse (B, H, T): log of each row's sum of exponentials; qkv (B, T, 3C) of
 * `dt`: q, k, v one after the other, head h in columns h*C/H.. of each. scratch:
 * attention_scratch() bytes. drop: of the softmax's probabilities, after normalisation, as GPT-2
 * has it; row (b*H + h)*T + i, column j; NULL or p 0: none. */
void attention_forward(void *out, float *lse, const void *qkv, enum dtype dt, size_t B, size_t T,
                       size_t C, size_t H, const struct dropout *drop, void *scratch);

/* dqkv (B, T, 3C) of `dt`, written; dout (B, T, C) of `dt`; out, lse, qkv as forward left them. */
void attention_backward(void *dqkv, const void *dout, const void *out, const float *lse,
                        const void *qkv, enum dtype dt, size_t B, size_t T, size_t C, size_t H,
                        const struct dropout *drop, void *scratch);

/* One new token a row: out (B, C) of `dt` from q (B, C) of `dt` (row stride q_stride elements) over
 * the cached keys and values of positions 0..T-1 (the new one included): k, v (B, max_T, C) of
 * `dt`. */
void attention_decode(void *out, const void *q, size_t q_stride, const void *k, const void *v,
                      enum dtype dt, size_t B, size_t T, size_t max_T, size_t C, size_t H,
                      void *scratch);

/* The form in which forward and backward run on this CPU, for the run's row: "fp32", "bf16" or
 * "amx". */
const char *attention_describe(enum dtype dt);

/* Bytes that any of the three needs, for up to `threads` threads. */
size_t attention_scratch(size_t B, size_t T, size_t C, size_t H, int threads);

#endif
