/* batch.h: a micro-batch as its source gives it, and how it comes into a model's activations.
 * Whoever trains or evaluates says what is in it; what of it counts follows from the targets and
 * labels alone, whatever the family. */
#pragma once

#include "model/model.h"

/* A micro-batch. The source gets rows and seq as the largest that the trainer was opened for and
 * sets what really stands in it: fixed shapes leave them; varying ones (model.varying) may have
 * fewer rows (0: this step has no such micro-batch) and shorter ones, seq a multiple of 16 or the
 * largest. */
struct batch {
    size_t   rows, seq;
    int32_t *x;     // (rows, seq): tokens; what follows a row's last one is padding, any id of the
                    // vocabulary
    int32_t *y;     // (rows, seq): a language model's targets; below 0 it does not count
    int32_t *types; // (rows, seq): of tokens, NULL where the model has none
    /* (rows, seq): where in its row the text of each token begins; NULL, but where the model was
     * opened for rows of several texts (model.packed). Attention stays inside a text, and positions
     * begin anew with it. Padding is a text of its own. */
    int32_t *begin;
    int32_t *last;  // (rows): a classifier's or an encoder's last position that is not padding
    int32_t *label; // (rows): its class; below 0 the row does not count
    float   *value; // (rows): a regressor's value; it counts where label is 0 or more
};

/* Where batches come from: micro-batch `micro` of step `step`, of all ranks'. */
struct batch_source {
    int (*batch)(void *ctx, uint64_t step, size_t micro, struct batch *b, struct err *err);
    void *ctx;
};

/* Tokens that are not padding, and targets or rows that count: the loss is the mean over those. */
struct batch_counts { uint64_t tokens, counted; };

/* Read this rank's micro-batch `micro` of step (or evaluating pass) `number` into m->acts.work.
 * What is in it is added to *n. */
int batch_read(struct model *m, const struct batch_source *data, uint64_t number, size_t micro,
               struct batch_counts *n, struct err *err);
