/* head.h: the final norm and the head tied to wte: logits, cross-entropy and both gradients over
 * chunks of HEAD_ROWS tokens, logits of LOGIT_ROWS at a time, so that they never exist whole. */
#ifndef MODEL_HEAD_H
#define MODEL_HEAD_H

#include "model/model.h"

/* One micro-batch, from acts_input(n_layer + 1) and the targets in acts_work()->y (below 0: not
 * counted). Per-token losses are summed in double in token order: returns their sum; *counted +=
 * how many there were. wire: of block n_layer + 1; embed_wire: of block 0. losses (N): each
 * token's, NULL if not wanted. */
double head_loss(struct model *m, size_t micro, const void *wire, const void *embed_wire,
                 float *losses, uint64_t *counted);

/* The same with gradients of sum x scale: dx of the residual stream is written to acts_work()->dx;
 * added to grad (block n_layer + 1) and embed_grad (block 0). fresh: the first micro-batch since
 * model_grad_begin, which writes wte's. */
double head_step(struct model *m, size_t micro, const void *wire, const void *embed_wire,
                 float *grad, float *embed_grad, int fresh, float scale);

#endif
