/* attention.h: multi-head attention, softmax(q k' / sqrt(hs)) v, in tiles: no T x T matrix ever
 * exists (Dao et al. 2022). Heads of queries may share heads of keys and values (Ainslie et al.
 * 2023). A query attends to one of three sets of keys (enum attention_kind). Sums are fp32;
 * inputs and outputs of products are `dt`. Tile sizes are fixed, so the result depends neither
 * on threads nor on the other rows of the batch. In bf16 it depends on whether the CPU
 * multiplies bf16 fast (attention_form.h). */
#pragma once

#include "data/base/dtype.h"
#include "kernels/dropout.h"

struct attention_form; // attention_form.h

enum { ATTENTION_HEAD = 256 }; // most elements of a head

enum attention_kind {
    ATTENTION_CAUSAL,        // keys up to the query's own position
    ATTENTION_WINDOW,        // the last `window` of these, its own included (Mistral)
    ATTENTION_BIDIRECTIONAL, // all keys of the row (BERT)
};

struct attention {
    size_t      B, T, C, H; // head h of queries, of hs = C / H elements, stands in columns h*hs..
    size_t      KV;         // heads of keys and values, of which H is a multiple; 0: H
    enum dtype  dt;
    enum attention_kind kind;
    size_t      window;     // ATTENTION_WINDOW: at least 1
    /* ATTENTION_BIDIRECTIONAL: (B), the number of text tokens in each row, 0 to T; NULL: all T.
     * The tokens behind them are padding. Attention ignores padding; out, lse and gradients are
     * 0 there. */
    const int32_t *lengths;
    /* (B, T): the index in the row at which each token's text begins, if a row has several
     * texts. A query then attends only to keys of its own text. NULL: a row is one text. */
    const int32_t *begin;
    const void *qkv;        // (B, T, C + 2 KV hs) dt: q, k, v side by side
    void       *out;        // (B, T, C) dt: written by forward, read by backward
    float      *lse;        // (B, H, T): log of each row's sum of exponentials; written by forward,
                            // read by backward
    /* Dropout of the normalised probabilities, as in GPT-2: row (b*H + h)*T + i, column j. NULL
     * or p 0: none. */
    const struct dropout *drop;
    void       *scratch;    // attention_scratch() bytes
    /* Backward only; NULL: nothing. Each thread of the parallel region calls idle(ctx) once, when
     * no part is left for it to compute. It and other threads may write dqkv until the region
     * ends. idle must not use `scratch`; it may have barriers. */
    void      (*idle)(const void *ctx);
    const void *ctx;
    const struct attention_form *form; // NULL: the fastest form of this CPU
};

void attention_forward(const struct attention *a);

/* Writes dqkv (B, T, C + 2 KV hs) of dt, from dout (B, T, C) of dt. The gradients of a head of
 * keys and values are summed in a fixed order (attention_backward.c). */
void attention_backward(void *dqkv, const void *dout, const struct attention *a);

/* Attention of one new token per sequence over the cached keys and values of positions 0..T-1,
 * its own included. With a window, it covers the last `window` positions. Position t is in row t
 * % max_T of the cache, so max_T rows serve any T. All attended positions must be in the cache:
 * max_T must be at least the window. Tokens added together must not overwrite a row that the
 * first of them attends to. */
struct attention_cached {
    size_t      B, T, max_T, C, H;
    size_t      KV;      // heads of keys and values, of which H is a multiple; 0: H
    size_t      window;  // 0: none
    enum dtype  dt;
    const void *qkv;     // (B, C + 2 KV hs) dt, hs = C / H: the new tokens; only q is read
    const void *k, *v;   // (B, max_T, KV hs) dt
    void       *scratch; // attention_scratch_forward() bytes
};

/* Writes out (B, C) of dt. */
void attention_decode(void *out, const struct attention_cached *a);

/* The name of the form in which forward and backward run on this CPU: "fp32", "bf16" or "amx".
 * For the run's database row. */
const char *attention_describe(enum dtype dt);

/* Bytes of scratch for up to `threads` threads, KV as above. attention_scratch is enough for all
 * three functions. attention_scratch_forward is enough for forward and decode, and stays small
 * for any T. */
size_t attention_scratch(size_t T, size_t C, size_t H, size_t KV, int threads);
size_t attention_scratch_forward(size_t T, size_t C, size_t H, int threads);
