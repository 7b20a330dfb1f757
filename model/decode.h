/* decode.h: generation, with a cache of keys and values: the parameters are streamed once a pass,
 * as in training. Each sequence of a batch has a length of its own, and what it gives depends on no
 * other one, bit for bit.
 *
 *     decode_open(&d, &options, stream, &err);
 *     decode_feed(d, ids, n, &logits, &err);             the prompts: logits of what follows each
 *     next[b] = sampling_pick(&sampling, logits + b * vocab, ...);             for every sequence
 *     decode_feed(d, ids, n, &logits, &err);             one token each, n[b] = 0 for those that
 *                                                        have ended */
#pragma once

#include "model/products.h"
#include "offload/stream/stream.h"

struct decode_options {
    struct model_config  config;
    size_t             batch;     // sequences, 1..CHUNK_ROWS (products.h)
    size_t             positions; // of a sequence, prompt and all, at most n_positions
    size_t             piece;     // tokens of a sequence in one pass: longer texts take several
    enum dtype         dtype;
    enum matmul_engine engine;
    int                threads;   // 0: as many as OpenMP has
};

struct decode; // opaque

/* The stream stays the caller's. Everything is allocated here. */
int  decode_open(struct decode **out, const struct decode_options *o, struct stream *stream,
                 struct err *err);
void decode_close(struct decode *d);

/* For the memory plan: bytes that decode_open takes beside the products' own; and the model whose
 * products it opens. */
uint64_t             decode_bytes(const struct decode_options *o);
struct model_options decode_model(const struct decode_options *o);

/* n[b] further tokens ids[b] of every sequence b, as far as positions are left; 0: it rests.
 * *logits (batch, vocab) of what follows is lent until the next call; rows of resting sequences
 * mean nothing. */
int decode_feed(struct decode *d, const int32_t *const *ids, const size_t *n, const float **logits,
                struct err *err);

/* Tokens of a sequence in the cache; and forget those from `length` on. */
size_t decode_length(const struct decode *d, size_t sequence);
void   decode_rewind(struct decode *d, size_t sequence, size_t length);
