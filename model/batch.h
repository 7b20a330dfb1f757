/* batch.h: a micro-batch as its source supplies it, and how it is read into a model's
 * activations. The source fills in tokens, targets and labels. Targets and labels alone decide
 * what counts in the loss, for every family. */
#pragma once

#include "model/layer/model.h"

/* A micro-batch. When the source is called, rows and seq are the largest that the trainer was
 * opened for. A source of fixed shapes leaves them. A source of varying shapes (model.varying)
 * may set smaller ones. seq must be a multiple of 16, or the largest. rows 0: this step has no
 * such micro-batch. */
struct batch {
    size_t   rows, seq;
    int32_t *x;     // (rows, seq): tokens; padding follows a row's last token and may be any id of
                    // the vocabulary
    int32_t *y;     // (rows, seq): a language model's targets; a negative target does not count
    int32_t *types; // (rows, seq): token types; NULL if the model has none
    /* (rows, seq): the index in the row at which each token's text begins. NULL unless the model
     * was opened for rows of several texts (model.packed). Attention stays inside a text, and
     * positions restart with each text. Padding is a text of its own. */
    int32_t *begin;
    /* (rows): the log-probability that the reference model gives to the targets of each row that
     * count. NULL unless the model was opened for pairs (model.paired). Rows 2i and 2i + 1 are
     * then a pair: the chosen and the rejected answer. */
    double  *reference;
    size_t   padding; // tokens of a language model's rows that are padding; 0 unless the source
                      // sets it
    int32_t *last;  // (rows): a classifier's or an encoder's last position that is not padding
    int32_t *label; // (rows): a classifier's class; a row with a negative class does not count
    float   *value; // (rows): a regressor's value; the row counts if label is 0 or more
};

/* The source of batches. batch() supplies micro-batch `micro` of step `step`; micro counts over
 * all ranks. It returns 0, or an error in err. */
struct batch_source {
    int (*batch)(void *ctx, uint64_t step, size_t micro, struct batch *b, struct err *err);
    void *ctx;
};

/* tokens: tokens that are not padding. counted: targets, rows or pairs that count. The loss is the
 * mean over the counted ones. */
struct batch_counts { uint64_t tokens, counted; };

/* Reads this rank's micro-batch `micro` of step (or evaluation pass) `number` into m->acts.work.
 * Adds its counts to *n. */
int batch_read(struct model *m, const struct batch_source *data, uint64_t number, size_t micro,
               struct batch_counts *n, struct err *err);
