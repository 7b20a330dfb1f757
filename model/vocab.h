/* vocab.h: passes over the blocks that depend on the vocabulary, the head and the embeddings.
 * The head's loss ends forward and begins backward. The embeddings' gradient is complete last. A
 * vocabulary may be one block or several pieces (arch_pieces), and the head may be tied to the
 * embeddings. step.c does not depend on these differences. */
#pragma once

#include "model/pass.h"

/* Computes the losses of all ranks from the residual stream behind the last layer. In training
 * it also computes the gradient of the residual stream. each: as in eval_step. */
int vocab_losses(struct trainer *t, struct pass *p, float *each, struct err *err);

/* Complete the gradients of an untied head, or of the embeddings, and send them. */
int vocab_head_backward(struct trainer *t, struct pass *p, struct err *err);
int vocab_embed_backward(struct trainer *t, struct pass *p, struct err *err);
