/* attention.h: multi-head attention, softmax(q k' / sqrt(hs)) v, in tiles: no T x T matrix ever
 * exists (Dao et al. 2022). Heads of queries may share heads of keys and values (Ainslie et al.
 * 2023), and what a query sees is one of three kinds. Sums are fp32; inputs and outputs of products
 * are `dt`. The tile sizes are fixed, the result depends on neither threads nor the batch a row
 * stands in; in bf16 it depends on whether the CPU multiplies bf16 fast (attention_form.h). */
#pragma once

#include "data/base/dtype.h"
#include "kernels/dropout.h"

struct attention_form; // attention_form.h

enum { ATTENTION_HEAD = 256 }; // elements of a head, at most

enum attention_kind {
    ATTENTION_CAUSAL,        // a query sees the keys up to its own
    ATTENTION_WINDOW,        // of these the last `window`, its own included (Mistral)
    ATTENTION_BIDIRECTIONAL, // all keys of its row (BERT)
};

struct attention {
    size_t      B, T, C, H; // head h of queries, of hs = C / H elements, stands in columns h*hs..
    size_t      KV;         // heads of keys and values, of which H is a multiple; 0: H
    enum dtype  dt;
    enum attention_kind kind;
    size_t      window;     // ATTENTION_WINDOW: at least 1
    /* ATTENTION_BIDIRECTIONAL: (B), how many of a row's T tokens are text, 0 to T; NULL: all. What
     * is behind them is padding: nobody sees it, and out, lse and gradients are 0 there. */
    const int32_t *lengths;
    /* (B, T): where in its row the text of each token begins, if rows are several texts, one behind
     * the other: a query then sees keys of its own text alone. NULL: a row is one text. */
    const int32_t *begin;
    const void *qkv;        // (B, T, C + 2 KV hs) dt: q, k, v one after the other
    void       *out;        // (B, T, C) dt: written by forward, read by backward
    float      *lse;        // (B, H, T), likewise: log of each row's sum of exponentials
    /* Of the softmax's probabilities, after normalisation, as GPT-2 has it: row (b*H + h)*T + i,
     * column j. NULL or p 0: none. */
    const struct dropout *drop;
    void       *scratch;    // attention_scratch() bytes
    const struct attention_form *form; // NULL: the fastest that this CPU runs
};

void attention_forward(const struct attention *a);

/* dqkv (B, T, C + 2 KV hs) of dt, written; dout (B, T, C) of dt. The gradients of a head of keys
 * and values are sums over its heads of queries, in order. */
void attention_backward(void *dqkv, const void *dout, const struct attention *a);

/* One new token a sequence, over the cached keys and values of positions 0..T-1, its own included;
 * or, with a window, over the last `window` of them. Position t stands in row t % max_T, where
 * those that are seen must all be: a cache of max_T rows, at least the window, serves any T, if
 * what comes in together writes over no row that its first token sees. */
struct attention_cached {
    size_t      B, T, max_T, C, H;
    size_t      KV;      // heads of keys and values, of which H is a multiple; 0: H
    size_t      window;  // 0: none
    enum dtype  dt;
    const void *qkv;     // (B, C + 2 KV hs) dt, hs = C / H: of the new tokens; only q is read
    const void *k, *v;   // (B, max_T, KV hs) dt
    void       *scratch; // attention_scratch_forward() bytes
};

/* out (B, C) of dt. */
void attention_decode(void *out, const struct attention_cached *a);

/* The form in which forward and backward run on this CPU, for the run's row: "fp32", "bf16" or
 * "amx". */
const char *attention_describe(enum dtype dt);

/* Bytes that any of the three needs, for up to `threads` threads, KV as above; and those that
 * forward and decode need, which are few for any T. */
size_t attention_scratch(size_t T, size_t C, size_t H, size_t KV, int threads);
size_t attention_scratch_forward(size_t T, size_t C, size_t H, int threads);
