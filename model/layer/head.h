/* head.h: the end of a pass, from the residual stream behind the last layer to the losses: the
 * final norm and one of three heads.
 *
 * A language model's head may be tied to the embeddings. Its logits, cross-entropy and both
 * gradients are computed in chunks of HEAD_ROWS tokens, with logits of LOGIT_ROWS tokens at a time
 * (or twice as many of both: products_at_once). The logits of a whole micro-batch never exist at
 * once.
 *
 * A classifier's or regressor's head follows transformers' ...ForSequenceClassification. It
 * multiplies the normalised last position of each row that is not padding with score.weight. For
 * an encoder, it takes the first position, behind the pooler, and adds a bias. The loss is
 * cross-entropy, or squared error with one label.
 *
 * A masked language model's head follows transformers' ...ForMaskedLM. It computes only the
 * tokens with a target.
 *
 * For pairs (pairs.h), the gradient of each token has a weight of its own, in
 * model.acts.work.weight.
 *
 * If the words of a head are in pieces (arch_pieces), the pieces pass one after the other, each
 * for all micro-batches (head_pieces.c). head_piece updates the softmax and the gradient of the
 * rows; head_end then computes the losses. The gradient of the words needs their logits once
 * more (head_gradient). For a tied head this is done when the embeddings' own gradient is added
 * to the same block. */
#pragma once

#include "model/layer/model.h"

struct head {
    const void *wire;      // parameters of the final norm's block
    const void *head_wire; // parameters of the block of the head's matrix (arch_head_block); a
                           // classifier has none
    size_t      piece;     // the piece in that block, if there are several
    /* Evaluation: receives each token's loss (N), or a classifier's logits (rows, n_labels); or
     * NULL. */
    float *each;
    /* Training: the gradients of sum x scale are added to grad and head_grad, the gradients of
     * these blocks. fresh: this is the first micro-batch since model_grad_begin, so it writes
     * the gradient of the head's matrix. */
    int    trains, fresh;
    float *grad, *head_grad, scale;
};

/* The gradient of the logits of a chunk's rows from `at` on, a multiple of LOGIT_ROWS. V: words of
 * the head, or of the piece. */
void *head_dlogits(const struct model *m, size_t at, size_t V);

/* Computes the losses of one micro-batch from acts_input(n_layer + 1). Targets, or last
 * positions, labels and values, are in model.acts.work. Returns the sum of the losses in double,
 * added in the order of tokens or rows. Adds to *counted the tokens whose target, or the rows
 * whose label, is not negative. Training: writes the gradient of the residual stream to
 * model.acts.work.dx. A classifier's is zero except at the last positions. */
double head_run(struct model *m, size_t micro, const struct head *h, uint64_t *counted);

/* The same computation for a head in pieces; each function handles one micro-batch. head_begin
 * and head_end use h->wire; head_piece and head_gradient use h->head_wire of piece h->piece.
 * head_words is called once for each piece; first: it is the first one of the pass.
 * head_end adds to h->grad and returns what head_run returns; head_gradient adds to
 * h->head_grad. head_losses gives, behind the last piece, each token's loss (N). */
void   head_begin(struct model *m, size_t micro, const struct head *h);
void   head_words(struct model *m, const struct head *h, int first);
void   head_piece(struct model *m, size_t micro, const struct head *h);
void   head_losses(const struct model *m, size_t micro, float *each);
double head_end(struct model *m, size_t micro, const struct head *h, uint64_t *counted);
void   head_gradient(struct model *m, size_t micro, const struct head *h);
