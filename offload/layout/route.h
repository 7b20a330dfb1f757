/* route.h: the order in which passes use the blocks of a model, and the buffers that blocks share.
 * The model says both once, in one struct (model/pass_order.h). From it follow what streams read
 * ahead, what is still in its frame, how many frames and gradient buffers there are, and what a
 * step has to move. A stream knows nothing more of what its blocks are.
 *
 * A lane is a row of neighbouring blocks that pass through the same buffers: its k-th block uses
 * buffer k modulo their number, in both directions. So the last blocks of a lane that goes up are
 * still in their frames when the lane comes down. A pass is a row of runs. A run uses all blocks of
 * one lane, up or down, in one or several ways:
 *
 *     READ   the block's parameters are acquired, and released before the lane needs their frame
 *     ADD    the block's gradient is lent, and added to
 *     SEND   the block's gradient is complete, and sent
 *
 * A run may use two lanes of equal length in step: the first block of `lane` as `uses` says, then
 * the first block of `with` as `uses_with` says, then the second block of each, and so on. So
 * each layer comes with its adapter.
 *
 * A block is frozen if training never sends its gradient. Streams then hold its wire parameters
 * alone: it has no master, no moments, no gradient and no update.
 *
 * A GPT-2 trains like this: embeddings READ; layers up READ; final norm READ; embeddings READ and
 * ADD, for the tied head; final norm ADD, SEND; layers down READ, ADD, SEND; embeddings ADD, SEND.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum stream_pass { STREAM_TRAIN, STREAM_EVAL, STREAM_GENERATE, STREAM_PASSES };

enum route_use { ROUTE_READ = 1, ROUTE_ADD = 2, ROUTE_SEND = 4 };
enum route_way { ROUTE_UP, ROUTE_DOWN };

/* The kinds of buffer that blocks share: frames for parameters, buffers for gradients. */
enum route_kind { ROUTE_FRAMES, ROUTE_GRADS, ROUTE_KINDS };

/* A lane of n blocks, and its buffers of each kind, never more than blocks. buffers 0: the run says
 * how many, by the memory that there is (run_config.frames, grad_buffers). A lane to whose
 * gradients nothing is added has no buffers for them, whatever it says. */
struct route_lane { size_t n, buffers[ROUTE_KINDS]; };
/* A run. uses 0: the end of the pass; uses_with 0: one lane alone. */
struct route_run {
    size_t lane; enum route_way way; unsigned uses;
    size_t with; unsigned uses_with;
};

enum { ROUTE_LANES = 6, ROUTE_RUNS = 10 };
struct route {
    struct route_lane lanes[ROUTE_LANES]; // unused ones have no blocks
    struct route_run  runs[STREAM_PASSES][ROUTE_RUNS];
};

/* Why no stream could follow the route, in words; NULL if one can. The rules: A training pass reads
 * all blocks. It first reads trained blocks in the order of their numbers, and so it does with
 * frozen ones; the one kind may come between the other. It sends the gradient of each trained block
 * once, after all that is added to it, and does not read the block again. At least one is trained.
 * If a lane's gradients are begun in one run and sent in another, each has a buffer. Lanes in step
 * are two, of equal length. Other passes only read. */
const char *route_fault(const struct route *o);

size_t route_blocks(const struct route *o);
/* How often a pass uses blocks in this way, and the block of the i-th such use. */
size_t route_uses(const struct route *o, enum stream_pass pass, enum route_use use);
size_t route_block(const struct route *o, enum stream_pass pass, enum route_use use, size_t i);
/* The i-th use in any way: the block, and how it is used; uses 0: the pass is over. */
struct route_at { size_t block; unsigned uses; };
struct route_at route_at(const struct route *o, enum stream_pass pass, size_t i);
/* The block whose gradient is complete last. The norm is known with it. */
size_t route_last(const struct route *o);
/* True if one run both adds to a block's gradient and sends it. Otherwise the incomplete gradient
 * waits while other blocks come and go. */
int    route_once(const struct route *o, size_t block);
/* True if training sends the block's gradient; otherwise the block is frozen. */
int    route_trains(const struct route *o, size_t block);

/* The number of buffers of a kind, over all lanes; the buffer of a block; the blocks that pass
 * through buffer i. `shared`: how many a lane has that leaves the number to the run. */
struct route_span { size_t first, end; };
size_t route_buffers(const struct route *o, enum route_kind kind, size_t shared);
size_t route_buffer(const struct route *o, enum route_kind kind, size_t shared, size_t block);
struct route_span route_buffer_blocks(const struct route *o, enum route_kind kind, size_t shared,
                                      size_t i);
/* How many buffers from the i-th on serve the same blocks as it; 0: there is no i-th. */
size_t route_buffers_alike(const struct route *o, enum route_kind kind, size_t shared, size_t i);

/* route_first: the blocks of the lane that training reads first. route_shared: the blocks of the
 * lane that leaves its number of frames to the run (the layers). */
struct route_span route_first(const struct route *o);
struct route_span route_shared(const struct route *o);

/* How many blocks and parameters a pass reads; block b has params[b]. frames: of each lane that
 * leaves the number to the run. again: the pass follows an equal one, whose last blocks are still
 * in their frames; otherwise the frames are empty. */
struct route_reads { size_t blocks; uint64_t params; };
struct route_reads route_reads(const struct route *o, enum stream_pass pass, size_t frames,
                               const size_t *params, int again);
