/* words.h: the blocks that have the vocabulary, in a pass: the head, whose loss ends the way
 * forward and begins the way back, and the embeddings, whose gradient is complete last. A
 * vocabulary may be one block or several pieces (arch_pieces), and the head may be the embeddings
 * once more: step.c need not know. */
#pragma once

#include "model/pass.h"

/* From the residual stream behind the last layer to the losses of all ranks, and in training back
 * to its gradient. each: as eval_step has it. */
int words_losses(struct trainer *t, struct pass *p, float *each, struct err *err);

/* Gradients of a head of its own, and of the embeddings: what is still missing of them is added,
 * and they are sent. */
int words_head_backward(struct trainer *t, struct pass *p, struct err *err);
int words_embed_backward(struct trainer *t, struct pass *p, struct err *err);
