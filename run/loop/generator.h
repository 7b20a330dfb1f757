/* generator.h: generates text with a model. It opens the parameters (in memory or streamed) and the
 * tokenizer, and it chooses tokens. */
#pragma once

#include "model/decode.h"
#include "model/sampling.h"
#include "run/folder/read_opts.h"
#include "run/loop/model_folder.h"

enum { GENERATOR_STOPS = HF_STOPS + 2 }; // and the tokenizer's, and the chat template's

struct generator {
    struct model_folder model;
    struct read_opts    read;
    struct sampling     sampling;
    struct tokenizer *tok;
    struct stream    *stream;
    struct decode    *decode;
    size_t            context; // maximum positions of prompt and continuation together
    size_t vocab; // of the logits; ids that the tokenizer lacks are never chosen
    int32_t           stops[GENERATOR_STOPS]; // tokens that end a text
    size_t            n_stops;
    size_t            batch, prefill, frames;
    int               timed;   // the streaming speed was reported
    float            *scratch; // 3 x vocab
    unsigned char    *marks;   // (vocab)
    json_t           *generation; // generation_config.json of the model's folder; NULL: none
};

/* Open the model of a run or of a Hugging Face folder. tokenizer: a folder; NULL: the model's own
 * tokenizer. read: batch is ignored; dtype -1: the model's own; seq: maximum positions of prompt
 * and continuation together (0: all of the model's). Must be closed by generator_close, also after
 * a failure. */
int  generator_open(struct generator *g, const char *model, enum model_which which,
                    const char *tokenizer, const struct read_opts *read,
                    const struct sampling *sampling, const struct events *events, struct err *err);
/* Plan the memory for `batch` sequences of at most `positions` tokens, and open the decoder.
 * longest: tokens of the longest prompt. If memory does not suffice for it, prompts are fed in
 * chunks. */
int  generator_start(struct generator *g, size_t batch, size_t positions, size_t longest,
                     struct err *err);
void generator_close(struct generator *g);

/* Calls decode_feed. If the model does not stay in memory, the first call reports the streaming
 * speed. -ERANGE if a logit is not finite. */
int generator_feed(struct generator *g, const int32_t *const *ids, const size_t *n,
                   const float **logits, struct err *err);

/* True if the token ends a text: it is the tokenizer's end-of-text token, or an eos_token_id of the
 * folder that the model came from. */
int generator_ends(const struct generator *g, int32_t id);

/* Choose the token at `position` of the continuation number `sequence`. ids: the text so far. */
int32_t generator_choose(const struct generator *g, const float *logits, uint64_t sequence,
                         uint64_t position, const struct token_buf *ids);
