/* decode.h: generation: the prompt in one pass, then token by token with a cache of keys and values, the
 * parameters streamed once a pass as in training. All sequences of a batch have prompts of one length.
 *
 *     decode_open(&d, &options, stream, &err);
 *     decode_prompt(d, ids, &logits, &err);              logits (batch, vocab) of what follows the prompt
 *     next[b] = sampling_pick(&sampling, logits + b * vocab, ...);             for every sequence
 *     decode_next(d, next, &logits, &err);               as often as positions are left */
#ifndef MODEL_DECODE_H
#define MODEL_DECODE_H

#include "model/model.h"
#include "offload/stream.h"

struct decode_options {
    struct gpt_config  gpt;
    size_t             batch;     // sequences, 1..CHUNK_ROWS
    size_t             prompt;    // tokens of the prompt, at least 1
    size_t             positions; // of prompt and continuation together, at most n_positions
    enum dtype         dtype;
    enum matmul_engine engine;
    int                threads;   // 0: as many as OpenMP has
};

struct decode; // opaque

/* The stream stays the caller's. Everything is allocated here. */
int  decode_open(struct decode **out, const struct decode_options *o, struct stream *stream, struct err *err);
void decode_close(struct decode *d);

/* Bytes decode_open takes beside the products' scratch, for the memory plan. */
uint64_t decode_bytes(const struct decode_options *o);

/* ids (batch, prompt). *logits (batch, vocab) is lent until the next call. May be called again for another
 * prompt. */
int decode_prompt(struct decode *d, const int32_t *ids, const float **logits, struct err *err);

/* One more token a sequence: ids (batch). At most positions - prompt times. */
int decode_next(struct decode *d, const int32_t *ids, const float **logits, struct err *err);

/* ---- choosing a token ---------------------------------------------------------------------------------- */

struct sampling {
    double   temperature; // 0: greedy, the largest logit, ties to the lower id
    size_t   top_k;       // only the k largest logits (and those equal to the k-th); 0: all
    uint64_t seed;
};

/* A token from softmax(logits / temperature): a function of seed, sequence, position and logits alone.
 * scratch: V floats. */
int32_t sampling_pick(const struct sampling *s, const float *logits, size_t V, uint64_t sequence,
                      uint64_t position, float *scratch);

#endif
