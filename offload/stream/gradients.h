/* gradients.h: the gradients of a step on their way from the model to devices. With error feedback
 * also residuals, which earlier steps did not send, on their way from devices and back.
 *
 *     a buffer is                                               next
 *     FREE       nobody's                                       gradients_lend
 *     LENT       the model's                                    gradients_send
 *     SENT       complete on this rank, waits for its exchange  gradients_advance
 *                with other ranks (exchange.h), in the order
 *                in which gradients are sent
 *     QUEUED     complete, waits until its block's last update  gradients_advance
 *                is committed: redoing that would need the old
 *                gradient on the devices
 *     WRITING    the devices', until all writes are back        FREE
 *
 *     its residual: READY -> ASKED (lent) -> READING (gradients_advance) -> READY
 *
 *     the step is
 *     begun      gradients are lent and sent                    gradients_end
 *     ended      the update was asked for; nothing of the next  gradients_begin
 *                step is lent until commit A is durable
 *
 * Calls are the scheduler's thread's with the lock held, unless they say otherwise. */
#pragma once

#include "offload/devices/scheduler.h"
#include "offload/gradient/exchange.h"
#include "offload/gradient/grad_form.h"
#include "offload/gradient/grouped.h"
#include "offload/layout/route.h"
#include "offload/stream/subs.h"

/* A block's residual in RAM, if residuals stay in RAM: none, the committed one, or that of the step
 * under way. If the step is skipped the latter is dropped, and the committed one is read again. */
struct residual { float *values; enum { HELD_NONE, HELD_COMMITTED, HELD_NEXT } held; };

struct gbuf {
    enum { GBUF_FREE, GBUF_LENT, GBUF_SENT, GBUF_QUEUED, GBUF_WRITING } state;
    enum { RESIDUAL_READY, RESIDUAL_ASKED, RESIDUAL_READING } asked;
    struct grouped sum;      // gradients, zero-padded to a multiple of CSD_ALIGN_PARAMS
    struct topk_pair *room;  // with compression of several groups: memory of their pairs
    struct pair_list *lists; // (n_groups) these pairs
    struct pair_list *nodes; // (n_nodes) and their sums (sum_tree.h)
    float   *own;       // this rank's portion of the gradient
    void    *pack;      // the compressed form, as devices get it
    float   *residual;  // of its block, padded as the gradient; a buffer, or
                        // residuals[block].values
    size_t   block;
    size_t   n, first;  // its parameters, and the first of this rank's portion
    size_t   k;         // with compression: pairs of one group; otherwise 0
    size_t   unread;    // subgroups of the residual that are still to be read
    size_t   unwritten; // writes that are not back
    uint64_t step;
    double   most;      // no magnitude in the gradient exceeds it
};

/* A subgroup's part of a gradient, as it is written to its gradient area. */
struct grad_part {
    struct journal_grad sum;
    uint32_t            residual_crc;
    void               *bytes;
    size_t              n_bytes, payload;
};

struct gradients {
    struct scheduler  *sched;
    struct subs      *subs;
    struct gbuf      *bufs;      // (n_bufs) numbered as in route.h
    size_t            n_bufs;
    struct residual  *residuals; // (n blocks) if they stay in RAM
    struct grad_part *parts;     // (n_subs)
    struct task      *writes;    // (n_subs)
    struct task      *feedback;  // (n_subs) with error feedback: residuals' reads and writes
    struct topk_pair *pairs;     // room for those of the largest block
    void             *scratch;   // of grad_form.h
    void             *pair_scratch; // with several groups: of pair_sum.h, and its sums of squares
    double           *pair_sums;
    struct exchange   exchange;
    int               alone;         // one process computes all groups
    int               sums_pairs;    // run_pair_sums
    size_t            n_groups;      // that this rank computes
    struct sum_node  *nodes;         // (n_nodes) the nodes that they add up to
    size_t            n_nodes;
    struct sum_node  *leaves;        // (n_groups) the groups as nodes
    size_t            sent, written; // blocks of the step
    size_t            merged;        // of the blocks sent, those that are summed over all ranks
    int               ended;         // the step is ended
};

/* Take tables, and buffers, from an arena (called twice, data/base/arena.h). */
void   gradients_tables(struct gradients *g, const struct store *st, struct arena *a);
void   gradients_lay(struct gradients *g, const struct store *st, struct arena *a);
/* Bytes of one buffer for these blocks: dense; compressed (lists: pairs of several groups and of
 * their nodes); its residual. */
struct gradient_bytes { size_t grad, pack, lists, residual; };
struct gradient_bytes gradients_bytes(const struct run_config *cfg, const struct store *st,
                                      struct route_span of);
/* Starts the exchange's thread, if there are several ranks. The stream ends and closes the exchange
 * (exchange.h). */
int  gradients_open(struct gradients *g, struct err *err);

/* The model's thread: stream_grad, stream_send_grad, stream_norm_end. They take the lock, and wait.
 * gradients_send only notes the gradient: the scheduler's thread submits it to the devices (advance
 * in stream_csd.c calls gradients_advance). */
int  gradients_lend(struct gradients *g, size_t block, size_t group, float **grad, int *fresh,
                    struct err *err);
int  gradients_send(struct gradients *g, size_t block, struct norm_sum *norm, struct err *err);
int  gradients_norm(struct gradients *g, struct norm_sum *norm, struct err *err);
/* Submit all reads, exchanges and writes that are possible. 1 if there were any, 0, or -errno. */
int  gradients_advance(struct gradients *g, struct err *err);
/* The update is asked for (the model's thread, lock held); its commit A is durable. skip: the step
 * is skipped. */
void gradients_end(struct gradients *g, int skip);
void gradients_begin(struct gradients *g, int skip);
