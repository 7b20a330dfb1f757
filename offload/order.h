/* order.h: the order in which a pass uses its blocks; the model follows it, streams read ahead
 * along it. Layer b streams through frame (b - 1) % frames, in both directions, so that the last
 * `frames` layers of forward are still there when backward begins. Frame `frames` is the
 * embeddings', frames + 1 the final norm's. */
#pragma once

#include "offload/stream.h"

/* Uses of blocks in a pass, and the block of the i-th: embeddings, layers, final norm, the tied
 * head (block 0 again), and in a training pass the layers backwards. */
static inline size_t order_uses(enum stream_pass pass, size_t n_blocks)
{
    return pass == STREAM_TRAIN ? 2 * n_blocks - 1 : n_blocks + 1;
}

static inline size_t order_block(size_t i, size_t n_blocks)
{
    return i < n_blocks ? i : i == n_blocks ? 0 : 2 * n_blocks - 1 - i;
}

static inline size_t order_frame(size_t block, size_t n_blocks, size_t frames)
{
    return block == 0 ? frames : block == n_blocks - 1 ? frames + 1 : (block - 1) % frames;
}

/* The blocks [first, end) that stream through frame i. */
struct order_blocks { size_t first, end; };
static inline struct order_blocks order_blocks(size_t i, size_t n_blocks, size_t frames)
{
    return i < frames    ? (struct order_blocks){ 1, n_blocks - 1 }
           : i == frames ? (struct order_blocks){ 0, 1 }
                         : (struct order_blocks){ n_blocks - 1, n_blocks };
}
