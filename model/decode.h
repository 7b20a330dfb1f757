/* decode.h: generation with a cache of keys and values. As in training, a pass streams the
 * parameters once. Each sequence of a batch has its own length. A sequence's output does not
 * depend on the other sequences, bit for bit.
 *
 *     decode_open(&d, &options, stream, &err);
 *     decode_feed(d, ids, n, &logits, &err);                     prompts; logits of the next tokens
 *     next[b] = sampling_pick(&sampling, logits + b * vocab, ...);               for every sequence
 *     decode_feed(d, ids, n, &logits, &err);       one token each; n[b] = 0 if sequence b ended */
#pragma once

#include "model/layer/products.h"
#include "offload/stream/stream.h"

struct decode_options {
    struct model_config  config;
    size_t             batch;     // sequences, 1..CHUNK_ROWS (products.h)
    size_t             positions; // maximum length of a sequence, with its prompt; at most
                                  // n_positions
    size_t             prefill;   // tokens of a sequence in one pass; longer texts take several
                                  // passes
    enum dtype         dtype;
    enum matmul_engine engine;
    int                threads;   // 0: OpenMP's default
};

struct decode; // opaque

/* Opens a decoder; decode_close frees it. The caller still owns the stream, which must outlive
 * the decoder. All memory is allocated here. Returns 0, or an error in err. */
int  decode_open(struct decode **out, const struct decode_options *o, struct stream *stream,
                 struct err *err);
void decode_close(struct decode *d);

/* For the memory plan. decode_bytes: the bytes that decode_open allocates, without those of the
 * products. decode_model: the options of the model whose products it opens. */
uint64_t             decode_bytes(const struct decode_options *o);
struct model_options decode_model(const struct decode_options *o);

/* Feeds the next n[b] tokens ids[b] of every sequence b, while positions are left. A sequence
 * with n[b] = 0 rests. *logits (batch, vocab) are the logits of the next tokens, lent until the
 * next call. The rows of resting sequences are undefined. */
int decode_feed(struct decode *d, const int32_t *const *ids, const size_t *n, const float **logits,
                struct err *err);

/* decode_length: the tokens of a sequence in the cache. decode_rewind: removes the tokens from
 * `length` on. */
size_t decode_length(const struct decode *d, size_t sequence);
void   decode_rewind(struct decode *d, size_t sequence, size_t length);
