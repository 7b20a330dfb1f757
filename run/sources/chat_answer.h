/* chat_answer.h: an answer of a row as it is stored: its ids, cut at the longest row, with a mark
 * for each that counts in the loss (data/task/examples.h). */
#pragma once

#include "run/folder/chat_opts.h"
#include "run/sources/chat_ends.h"
#include "run/sources/chat_held.h"

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
