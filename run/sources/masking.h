/* masking.h: rows for a masked language model (BERT). A row holds tokens of a file between the
 * special tokens that the tokenizer puts around a text. Some tokens are masked, and the model
 * predicts them. */
#pragma once

#include "data/text/tokens.h"
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

/* Rows of seq tokens in a file of `count` tokens. 0: the file is too short, or the special tokens
 * fill a row. */
uint64_t masking_rows(const struct masking *m, uint64_t count, size_t seq);

/* Fill a micro-batch with masked rows, numbered from `first`. A row's number decides which tokens
 * are masked. Training passes `order`: rows are numbered from the first step on, and `order` maps a
 * number to one of the file's `rows`. Evaluation passes NULL: the number is the row of the file.
 * A number from `rows` on give rows without targets. */
int masking_batch(const struct masking *m, struct tokens *t, const struct tokens_order *order,
                  uint64_t first, uint64_t rows, struct batch *b, struct err *err);
