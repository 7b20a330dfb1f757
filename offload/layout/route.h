/* route.h: in which order passes use the blocks of a model, and what these share. The model says it
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

enum route_use { ROUTE_READ = 1, ROUTE_ADD = 2, ROUTE_SEND = 4 };
enum route_way { ROUTE_UP, ROUTE_DOWN };

/* What blocks share: frames for parameters, buffers for gradients. */
enum route_kind { ROUTE_FRAMES, ROUTE_GRADS, ROUTE_KINDS };

/* n blocks; its buffers of each kind. 0: as many as there is memory for, which the run says
 * (run_config.frames, grad_buffers). Never more than blocks. */
struct route_lane { size_t n, buffers[ROUTE_KINDS]; };
struct route_run { size_t lane; enum route_way way; unsigned uses; }; // uses 0: behind the last

enum { ROUTE_LANES = 4, ROUTE_RUNS = 10 };
struct route {
    struct route_lane lanes[ROUTE_LANES]; // those that are not there have no blocks
    struct route_run  runs[STREAM_PASSES][ROUTE_RUNS];
};

/* What no stream could follow, in words, or NULL. A training pass first reads blocks in the order
 * of their numbers; it sends the gradient of each once, behind all that is added to it, and does
 * not read the block again; where gradients of a lane are begun in one run and sent in another,
 * there is a buffer for each. Other passes only read. */
const char *route_fault(const struct route *o);

size_t route_blocks(const struct route *o);
/* How many blocks a pass uses so, counted as often as it does, and the i-th of these. */
size_t route_uses(const struct route *o, enum stream_pass pass, enum route_use use);
size_t route_block(const struct route *o, enum stream_pass pass, enum route_use use, size_t i);
/* The i-th use of any kind: its block, and what for; uses 0: behind the last. */
struct route_at { size_t block; unsigned uses; };
struct route_at route_at(const struct route *o, enum stream_pass pass, size_t i);
/* The block whose gradient is complete last: the norm is known with it. */
size_t route_last(const struct route *o);
/* Whether all that is added to a block's gradient is added in the run that sends it: else it waits,
 * begun, while other blocks come and go. */
int    route_once(const struct route *o, size_t block);

/* Buffers of a kind, `shared` of them where a lane has as many as the run says; that of a block;
 * and the blocks that pass through buffer i. */
struct route_span { size_t first, end; };
size_t route_buffers(const struct route *o, enum route_kind kind, size_t shared);
size_t route_buffer(const struct route *o, enum route_kind kind, size_t shared, size_t block);
struct route_span route_buffer_blocks(const struct route *o, enum route_kind kind, size_t shared,
                                      size_t i);

/* The blocks that a pass is waiting for before its first block of many (those of the lane that it
 * reads first), and those of the lane that has as many frames as the run says (the layers). */
struct route_span route_first(const struct route *o);
struct route_span route_shared(const struct route *o);

/* What a pass reads through these frames: blocks, and parameters, of which block b has params[b].
 * again: it comes after one like it, whose last blocks are still there; else all are read anew. */
struct route_reads { size_t blocks; uint64_t params; };
struct route_reads route_reads(const struct route *o, enum stream_pass pass, size_t frames,
                               const size_t *params, int again);
