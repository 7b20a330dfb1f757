/* block.h: forward and backward of the embeddings and of one transformer layer, for one
 * micro-batch at a time. A block's parameters are one flat array in wire format; its gradient is
 * one flat fp32 array. Forward reads acts_input(b) and writes acts_input(b + 1). Backward
 * updates the gradient of the residual stream in place, in m->acts.work.dx. */
#pragma once

#include "model/layer/model.h"

/* Writes the embeddings of the tokens in m->acts.work.x to acts_input(1). If the embeddings are
 * in pieces, it writes only the rows whose words this block has. The last piece comes last. */
void embed_forward(struct model *m, size_t micro, size_t block, const void *wire);
/* Adds dx to the gradients of the embeddings, or of the words that this block has. The first
 * piece comes first. wire: the block's parameters, if the family's order of blocks reads them
 * (pass_order.h). */
void embed_backward(struct model *m, size_t micro, size_t block, const void *wire,
                    float *grad);

/* Forward of layer `layer`, 1..n_layer. Call products_begin before the layer's first
 * micro-batch, in forward and in backward. It pushes items to m->records, or pops them, which
 * may block, and may fail. */
struct block_wires { const void *layer, *adapter; }; // adapter NULL: the model has none
int block_forward(struct model *m, size_t layer, size_t micro, const struct block_wires *wires,
                  struct err *err);
/* Backward of a layer. dx is the gradient of the layer's output on entry, and of its input on
 * return. It recomputes activations that were neither kept nor offloaded. fresh: this is the
 * first micro-batch since model_grad_begin, so products write the matrices of the layer's gradient
 * instead of adding. */
struct block_grads { float *layer, *adapter; int fresh; }; // NULL: frozen, or no adapter
int block_backward(struct model *m, size_t layer, size_t micro, const struct block_wires *wires,
                   const struct block_grads *grads, struct err *err);
/* The number of items that block_forward pushes for a layer's micro-batch. */
size_t block_items(const struct model *m, size_t layer, size_t micro);
