/* order.h: in which order passes use the blocks of a model, and what these share. The model says it
 * (model/passes.h), once, in one struct; what streams read ahead, what stays in its frame, how many
 * frames and gradient buffers there are, what a step has to move: all of it follows from that. A
 * stream knows nothing else of what its blocks are.
 *
 * Blocks stand in lanes, one behind the other: a lane is a row of blocks that pass through the same
 * buffers in turn, its k-th block through buffer k modulo their number, in both directions. So the
 * last ones of a lane that goes up are still there when it comes down. A pass is a row of runs, of
 * which each uses all blocks of a lane, up or down:
 *
 *     READ   its parameters are acquired, and released before the lane needs their frame
 *     ADD    its gradient is lent, and added to
 *     SEND   its gradient is complete, and sent
 *
 * A GPT-2 trains so: embeddings READ; layers up READ; final norm READ; embeddings READ and ADD, for
 * the tied head; final norm ADD, SEND; layers down READ, ADD, SEND; embeddings ADD, SEND. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum stream_pass { STREAM_TRAIN, STREAM_EVAL, STREAM_GENERATE, STREAM_PASSES };

enum order_use { ORDER_READ = 1, ORDER_ADD = 2, ORDER_SEND = 4 };
enum order_way { ORDER_UP, ORDER_DOWN };

/* What blocks share: frames for parameters, buffers for gradients. */
enum order_kind { ORDER_FRAMES, ORDER_GRADS, ORDER_KINDS };

/* n blocks; its buffers of each kind. 0: as many as there is memory for, which the run says
 * (run_config.frames, grad_buffers). Never more than blocks. */
struct order_lane { size_t n, buffers[ORDER_KINDS]; };
struct order_run { size_t lane; enum order_way way; unsigned uses; }; // uses 0: behind the last

enum { ORDER_LANES = 5, ORDER_RUNS = 10 };
struct order {
    struct order_lane lanes[ORDER_LANES]; // those that are not there have no blocks
    struct order_run  runs[STREAM_PASSES][ORDER_RUNS];
};

/* What no stream could follow, in words, or NULL. A training pass first reads blocks in the order
 * of their numbers; it sends the gradient of each once, behind all that is added to it, and does
 * not read the block again; where gradients of a lane are begun in one run and sent in another,
 * there is a buffer for each. Other passes only read. */
const char *order_fault(const struct order *o);

size_t order_blocks(const struct order *o);
/* How many blocks a pass uses so, counted as often as it does, and the i-th of these. */
size_t order_uses(const struct order *o, enum stream_pass pass, enum order_use use);
size_t order_block(const struct order *o, enum stream_pass pass, enum order_use use, size_t i);
/* The i-th use of any kind: its block, and what for; uses 0: behind the last. */
struct order_at { size_t block; unsigned uses; };
struct order_at order_at(const struct order *o, enum stream_pass pass, size_t i);
/* The block whose gradient is complete last: the norm is known with it. */
size_t order_last(const struct order *o);
/* Whether all that is added to a block's gradient is added in the run that sends it: else it waits,
 * begun, while other blocks come and go. */
int    order_once(const struct order *o, size_t block);

/* Buffers of a kind, `shared` of them where a lane has as many as the run says; that of a block;
 * and the blocks that pass through buffer i. */
struct order_span { size_t first, end; };
size_t order_buffers(const struct order *o, enum order_kind kind, size_t shared);
size_t order_buffer(const struct order *o, enum order_kind kind, size_t shared, size_t block);
struct order_span order_buffer_blocks(const struct order *o, enum order_kind kind, size_t shared,
                                      size_t i);

/* The blocks that a pass is waiting for before its first block of many (those of the lane that it
 * reads first), and those of the lane that has as many frames as the run says (the layers). */
struct order_span order_first(const struct order *o);
struct order_span order_shared(const struct order *o);

/* What a pass reads through these frames: blocks, and parameters, of which block b has params[b].
 * again: it comes after one like it, whose last blocks are still there; else all are read anew. */
struct order_reads { size_t blocks; uint64_t params; };
struct order_reads order_reads(const struct order *o, enum stream_pass pass, size_t frames,
                               const size_t *params, int again);
