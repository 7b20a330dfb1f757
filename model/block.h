/* block.h: the embeddings and one transformer layer, forward and backward, one micro-batch at a
 * time. Parameters come as the block's flat wire parameters, gradients go into its flat fp32
 * gradient; the residual stream goes from acts_input(b) to acts_input(b + 1), its gradient back
 * through acts_work()->dx in place. */
#pragma once

#include "model/model.h"

/* acts_input(1): the embeddings of the tokens in acts_work()->x. Where they are in pieces, of those
 * that this block has; the last one's comes last. */
void embed_forward(struct model *m, size_t micro, size_t block, const void *wire);
/* Adds dx to the gradients of the embeddings, or of the words that this block has; the first one's
 * comes first. wire: what the family's order has read (passes.h). */
void embed_backward(struct model *m, size_t micro, size_t block, const void *wire,
                    float *grad);

/* Layer `layer`, 1..n_layer. products_begin comes before its first micro-batch, forward or
 * backward. What goes to m->records or comes back may wait, and fail. */
int block_forward(struct model *m, size_t layer, size_t micro, const void *wire, struct err *err);
/* dx: of the layer's output on entry, of its input on return. Computes the layer's activations
 * again if they were neither kept nor offloaded. fresh: the first micro-batch since
 * model_grad_begin, whose products write the gradient's matrices. */
int block_backward(struct model *m, size_t layer, size_t micro, const void *wire, float *grad,
                   int fresh, struct err *err);
/* Pieces that block_forward of a layer's micro-batch pushes. */
size_t block_pieces(const struct model *m, size_t layer, size_t micro);
