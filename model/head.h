/* head.h: the end of a pass, from the residual stream behind the last layer to the losses: the
 * final norm and one of two heads. A language model's may be tied to the embeddings: logits,
 * cross-entropy and both gradients over chunks of HEAD_ROWS tokens, logits of LOGIT_ROWS at a time,
 * so that they never exist whole. A classifier's or regressor's is as transformers'
 * ...ForSequenceClassification have it: the last position of each row that is not padding,
 * normalised, times score.weight; or an encoder's first position, pooled, with a bias. Losses are
 * cross-entropy or, with one label, squared error. */
#pragma once

#include "model/model.h"

struct head {
    const void *wire;      // of block n_layer + 1
    const void *head_wire; // of the block in which the head's matrix stands: block 0 where it is
                           // tied; a classifier has none
    /* Evaluating: each token's loss (N), a classifier's logits (rows, n_labels), or NULL. */
    float *each;
    /* Training: gradients of sum x scale are added to grad and head_grad, of the same blocks;
     * fresh: the first micro-batch since model_grad_begin, which writes the head's matrix. */
    int    trains, fresh;
    float *grad, *head_grad, scale;
};

/* One micro-batch, from acts_input(n_layer + 1) and the targets, or the last positions, labels
 * and values, in model.acts.work. Returns the sum of its losses, in double, in order of tokens or
 * rows; *counted += the tokens with a target, or the rows with a label, that is not below 0.
 * Training: dx of the residual stream is written to model.acts.work.dx (a classifier's: zero but at
 * the last positions). */
double head_run(struct model *m, size_t micro, const struct head *h, uint64_t *counted);
