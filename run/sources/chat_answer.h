/* chat_answer.h: an answer of a row as it is stored: its ids, cut at the longest row, with a mark
 * for each that counts in the loss (data/task/examples.h); and the tokens that end an answer. A
 * model must learn one of them, and whoever generates with it must stop there:
 * generation_config.json names it in every export. */
#pragma once

#include "chat/encode.h"
#include "model/file/hf.h"
#include "run/folder/session.h"
#include "run/folder/tune_opts.h"
#include "run/sources/chat_held.h"

/* stops: at which generation stops: those of generation_config.json, the tokenizer's end of a text,
 * and the token that closes an assistant's turn. closing: that one, -1 if the template closes turns
 * by none, or if there is no template. */
struct chat_ends { int32_t stops[HF_STOPS + 2], closing; size_t n; };

/* Find those of a run that is being created. */
int  chat_ends_find(struct chat_ends *e, const struct session *s, const struct chat_encoding *how,
                    struct err *err);
/* Store with the run that generation stops at `id`, too, and say so if its generation_config.json
 * did not. Nothing is done for -1. */
int  chat_ends_keep(struct session *s, const struct tokenizer *tok, int32_t id, struct err *err);
/* Send a notice that none of `rows` rows teaches to stop. cut: all of them are cut off. */
int  chat_ends_missing(const struct chat_ends *e, struct session *s, const struct tokenizer *tok,
                       int cut, struct err *err);

/* How answers are stored. */
struct chat_storing {
    const struct tokenizer *tok;
    size_t                  vocab, most;   // most: ids of a row
    enum chat_long          long_rows;
    const struct chat_ends *ends;
};

/* Of the answers of a row: the ids that are stored, and how many of them count. `tokens` and
 * ids->counted are of all of it. */
struct chat_answer {
    const struct chat_ids *ids;
    size_t                 tokens;
    int32_t               *stored, counted; // stored: room for `most`
    size_t                 n;
    int                    ended; // a token counts at which generation stops
};

/* Completes an answer, of which ids, tokens and stored are set. Misuse: an id that the model does
 * not have; too many tokens, if such rows are refused. */
int chat_answer_make(struct chat_answer *a, const struct chat_held *h,
                     const struct chat_storing *how, struct err *err);
/* Whether a row of n answers cannot be trained on: one has no token that counts, or two are the
 * same as they are stored. *behind: as rows are cut. */
int chat_answer_bare(const struct chat_answer a[2], size_t n, int *behind);
