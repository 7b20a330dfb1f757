/* attention.h: causal multi-head attention, softmax(q k' / sqrt(hs)) v, in tiles: no T x T
 * matrix ever exists (Dao et al. 2022). Sums are fp32; inputs and outputs of products are `dt`. The
 * tile sizes are fixed, the result depends on neither threads nor the batch a row stands in; in
 * bf16 it depends on whether the CPU multiplies bf16 fast (attention_form.h). */
#pragma once

#include "kernels/dropout.h"
#include "data/base/dtype.h"

struct attention_form; // attention_form.h

struct attention {
    size_t      B, T, C, H; // head h stands in columns h*C/H.. of out and of each of q, k, v
    enum dtype  dt;
    const void *qkv;        // (B, T, 3C) dt: q, k, v one after the other
    void       *out;        // (B, T, C) dt: written by forward, read by backward
    float      *lse;        // (B, H, T), likewise: log of each row's sum of exponentials
    /* Of the softmax's probabilities, after normalisation, as GPT-2 has it: row (b*H + h)*T + i,
     * column j. NULL or p 0: none. */
    const struct dropout *drop;
    void       *scratch;    // attention_scratch() bytes
    const struct attention_form *form; // NULL: the fastest that this CPU runs
};

void attention_forward(const struct attention *a);

/* dqkv (B, T, 3C) of dt, written; dout (B, T, C) of dt. */
void attention_backward(void *dqkv, const void *dout, const struct attention *a);

/* One new token a sequence, over the cached keys and values of positions 0..T-1, its own
 * included. */
struct attention_cached {
    size_t      B, T, max_T, C, H;
    enum dtype  dt;
    const void *qkv;     // (B, 3C) dt: of the new tokens; only q is read
    const void *k, *v;   // (B, max_T, C) dt
    void       *scratch; // attention_scratch() bytes
};

/* out (B, C) of dt. */
void attention_decode(void *out, const struct attention_cached *a);

/* The form in which forward and backward run on this CPU, for the run's row: "fp32", "bf16" or
 * "amx". */
const char *attention_describe(enum dtype dt);

/* Bytes that any of the three needs, for up to `threads` threads. */
size_t attention_scratch(size_t T, size_t C, size_t H, int threads);
