/* masking.h: rows for a masked language model (BERT). A row holds tokens of a file between the
 * special tokens that the tokenizer puts around a text. Some tokens are masked, and the model
 * predicts them. */
#pragma once

#include "data/text/mixture.h"
#include "model/step.h"
#include "run/folder/train_opts.h"

/* prob: fraction of the tokens that are masked; the tokenizer's special tokens do not count. mask
 * ... pad are token ids; -1: none. */
struct masking {
    double  prob;
    size_t  vocab;
    int32_t mask, before, behind, end, pad;
    int     refuse_pad; // position ids depend on padding: refuse it inside a row
    int     bare;       // the tokenizer adds no tokens around a text
};

/* Check --mask-prob and --mask-id on a command line. Returns misuse if the model is not a masked
 * language model, or if the id is 0. */
int masking_opts_check(const struct opt_line *line, const struct mask_opts *o,
                       const struct model_config *g, struct err *err);

/* Find the special tokens for a model. tokenizer: a folder, or NULL; then o->id must give the
 * mask's id. Returns misuse if the mask's id is unknown, or if an id is outside the vocabulary. */
int masking_find(struct masking *out, const struct model_config *g, const struct mask_opts *o,
                 const char *tokenizer, struct err *err);

/* Check that training can begin. Returns misuse if the tokenizer has no template, so that rows have
 * no special tokens. */
int masking_framed(const struct masking *m, const struct model_config *g, struct err *err);

/* The number of masked tokens in a row with n ordinary tokens: prob * n rounded, at least 1 if n >
 * 0. */
uint64_t masking_chosen(double prob, uint64_t n);

/* True if rows of seq tokens have room for other tokens than the special ones. */
int masking_room(const struct masking *m, size_t seq);

/* Set the rows of an epoch of each source: rows of seq tokens and a target, or, unless m is NULL,
 * rows with the special tokens around them. A source that is too short has 0, and so has each if
 * these tokens fill a row. */
void masking_rows(const struct masking *m, struct mixture *from, size_t seq);

/* Fill a micro-batch with masked rows, numbered from `first`. A row's number decides which tokens
 * are masked. Numbers of a training go on from the first step; `evaluates`: they are those of one
 * epoch, and a number behind it gives a row without targets. */
int masking_batch(const struct masking *m, const struct mixture *from, int evaluates,
                  uint64_t first, struct batch *b, struct err *err);
