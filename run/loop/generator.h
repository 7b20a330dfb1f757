/* generator.h: a model opened to continue texts: its parameters in memory or streamed, its
 * tokenizer, the choice of a token. */
#pragma once

#include "model/decode.h"
#include "model/sampling.h"
#include "run/folder/train_opts.h"
#include "run/loop/model_folder.h"

enum { GENERATOR_STOPS = HF_STOPS + 1 };

struct generator {
    struct model_folder model;
    struct read_opts    read;
    struct sampling     sampling;
    struct tokenizer *tok;
    struct stream    *stream;
    struct decode    *decode;
    size_t            context; // positions of prompt and continuation together, at most
    size_t vocab; // of the logits; those that the tokenizer has, too, are chosen from
    int32_t           stops[GENERATOR_STOPS]; // tokens that end a text
    size_t            n_stops;
    size_t            batch, piece, frames;
    int               timed;   // whether the speed of streaming was said
    float            *scratch; // 3 x vocab
    unsigned char    *marks;   // (vocab)
    json_t           *generation; // what the model's folder says of generated texts; NULL: nothing
};

/* The model of a run or a Hugging Face folder, and its tokenizer or that in the folder `tokenizer`
 * (NULL: its own). read: its batch is not looked at; dtype -1: the model's own; seq: positions of
 * prompt and continuation together, at most (0: all the model has). Closed by generator_close also
 * after a failure. */
int  generator_open(struct generator *g, const char *model, enum model_which which,
                    const char *tokenizer, const struct read_opts *read,
                    const struct sampling *sampling, const struct events *events, struct err *err);
/* Plan the memory for `batch` sequences of at most `positions` tokens, and open what computes.
 * longest: of the first texts that it will be fed; where there is not room for it, it goes in
 * pieces. */
int  generator_start(struct generator *g, size_t batch, size_t positions, size_t longest,
                     struct err *err);
void generator_close(struct generator *g);

/* decode_feed. The first call of a model that does not stay in memory tells how long a token
 * will take. */
int generator_feed(struct generator *g, const int32_t *const *ids, const size_t *n,
                   const float **logits, struct err *err);

/* Whether the token ends a text: it is the tokenizer's end of one, or the folder that the model
 * came from has it as (one of) eos_token_id. */
int generator_ends(const struct generator *g, int32_t id);

/* The token at `position` of the continuation `sequence`, whose text so far are `ids`. */
int32_t generator_choose(const struct generator *g, const float *logits, uint64_t sequence,
                         uint64_t position, const struct token_buf *ids);
