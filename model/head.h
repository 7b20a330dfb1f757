/* head.h: the end of a pass, from the residual stream behind the last layer to the losses: the
 * final norm and one of two heads. A language model's may be tied to the embeddings: logits,
 * cross-entropy and both gradients over chunks of HEAD_ROWS tokens, logits of LOGIT_ROWS at a time,
 * so that they never exist whole. A classifier's or regressor's is as transformers'
 * ...ForSequenceClassification have it: the last position of each row that is not padding,
 * normalised, times score.weight; or an encoder's first position, pooled, with a bias. Losses are
 * cross-entropy or, with one label, squared error. A masked language model's head is as
 * ...ForMaskedLM have it, and sees only tokens with a target.
 *
 * A head whose words are in pieces (arch_pieces) sees them one after the other, each for all
 * micro-batches (head_pieces.c): the softmax is made on the way, with the gradient of the rows
 * (head_piece); then losses follow (head_end). The gradient of the words takes their logits once
 * more (head_gradient): a tied head's when the embeddings' own is added to the same block. */
#pragma once

#include "model/model.h"

struct head {
    const void *wire;      // of the final norm's block
    const void *head_wire; // of the block in which the head's matrix stands (arch_head_block); a
                           // classifier has none
    size_t      piece;     // and which that is, where they are several
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

/* In pieces: each of a micro-batch. head_begin and head_end take h->wire, head_piece and
 * head_gradient h->head_wire of h->piece; head_end adds to h->grad, head_gradient to h->head_grad.
 * head_end is as head_run otherwise. */
void   head_begin(struct model *m, size_t micro, const struct head *h);
void   head_piece(struct model *m, size_t micro, const struct head *h);
double head_end(struct model *m, size_t micro, const struct head *h, uint64_t *counted);
void   head_gradient(struct model *m, size_t micro, const struct head *h);
