/* masking.h: the rows of a masked language model (BERT): tokens of a file with the ids around them
 * that its tokenizer puts around a text, in which some are masked, to be found again. */
#pragma once

#include "data/text/tokens.h"
#include "model/step.h"
#include "run/folder/train_opts.h"

/* prob: of all tokens but the tokenizer's own. The ids; -1: none. */
struct masking {
    double  prob;
    size_t  vocab;
    int32_t mask, before, behind, end, pad;
    int     refuse_pad; // positions depend on it
    int     bare;       // the tokenizer puts nothing around a text
};

/* What a command line says of masks, for a model that has none, or that cannot be, is refused. */
int masking_opts_check(const struct opt_line *line, const struct mask_opts *o,
                       const struct model_config *g, struct err *err);

/* For a model, with the tokenizer of a folder, or NULL: then o->id says which id masks. Refused
 * where nothing says it, or the model does not have it. */
int masking_find(struct masking *out, const struct model_config *g, const struct mask_opts *o,
                 const char *tokenizer, struct err *err);

/* Whether a training can begin: rows of a tokenizer without a template are refused. */
int masking_framed(const struct masking *m, const struct model_config *g, struct err *err);

/* How many of n tokens of a row are asked for. */
uint64_t masking_chosen(double prob, uint64_t n);

/* Rows of seq tokens in a file of `count`; 0: it is too short. */
uint64_t masking_rows(const struct masking *m, uint64_t count, size_t seq);

/* A micro-batch of masked rows, of the file's `rows`. They are numbered from `first` on, and their
 * numbers choose what is masked: in a training that takes rows in this order they count from its
 * first step on; with order NULL, in an evaluation, they are the file's rows, and nothing is asked
 * of rows behind the last one. */
int masking_batch(const struct masking *m, struct tokens *t, const struct tokens_order *order,
                  uint64_t first, uint64_t rows, struct batch *b, struct err *err);
