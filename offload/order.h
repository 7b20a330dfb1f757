/* order.h: the order in which a pass uses its blocks, as a pure function; the model follows it, the
 * scheduler reads ahead along it. Layer b streams through frame (b - 1) % frames, in both
 * directions, so that the last `frames` layers of forward are still there when backward begins; the
 * embeddings and the final norm have frames of their own. */
#ifndef OFFLOAD_ORDER_H
#define OFFLOAD_ORDER_H

#include "offload/stream.h"

struct order_use { size_t block, frame; };

/* Layers are 1..n_layer. Frame `frames` is the embeddings', frames + 1 the final norm's. Writes the
 * uses of a pass into uses[0..order_max(n_layer)) and returns their number. */
size_t order_uses(struct order_use *uses, enum stream_pass pass, size_t n_layer, size_t frames);

static inline size_t order_max(size_t n_layer)
{
    return 2 * n_layer + 3;
}

static inline size_t order_frame(size_t block, size_t n_layer, size_t frames)
{
    return block == 0 ? frames : block == n_layer + 1 ? frames + 1 : (block - 1) % frames;
}

/* The blocks [first, end) that stream through frame i. */
struct order_blocks { size_t first, end; };
static inline struct order_blocks order_blocks(size_t i, size_t n_layer, size_t frames)
{
    return i < frames    ? (struct order_blocks){ 1, n_layer + 1 }
           : i == frames ? (struct order_blocks){ 0, 1 }
                         : (struct order_blocks){ n_layer + 1, n_layer + 2 };
}

#endif
