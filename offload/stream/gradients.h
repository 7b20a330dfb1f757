/* gradients.h: the gradients of a step, on their way from the model to the devices, and with error
 * feedback what the steps before did not send (residuals), to the model and back.
 *
 *     a buffer   is                                             next
 *     FREE       nobody's                                       gradients_lend
 *     LENT       the model's                                    gradients_send
 *     SENT       complete, of this rank: until it is exchanged  gradients_advance
 *                with the others (exchange.h), in the order in
 *                which gradients are sent
 *     QUEUED     complete, until its block's last update is     gradients_advance
 *                committed: its redo would need the old ones
 *     WRITING    the devices', until all writes are back        FREE
 *
 *     the residual beside it: READY -> ASKED (lent) -> READING (gradients_advance) -> READY
 *
 *     the step   is
 *     begun      gradients are lent and sent                    gradients_end
 *     ended      the update was asked for: nothing of the next  gradients_begin
 *                step is lent until commit A is durable
 */
#pragma once

#include "offload/devices/scheduler.h"
#include "offload/gradient/exchange.h"
#include "offload/gradient/grad_form.h"
#include "offload/gradient/grouped.h"
#include "offload/layout/route.h"
#include "offload/stream/subs.h"

/* What RAM holds of a block's residual, where all of it stays in RAM: nothing, the committed one,
 * or that of the step under way, which a skip drops: it is read again then. */
struct residual { float *values; enum { HELD_NONE, HELD_COMMITTED, HELD_NEXT } held; };

struct gbuf {
    enum { GBUF_FREE, GBUF_LENT, GBUF_SENT, GBUF_QUEUED, GBUF_WRITING } state;
    enum { RESIDUAL_READY, RESIDUAL_ASKED, RESIDUAL_READING } asked;
    struct grouped sum; // gradients, padded with zeros to a multiple of CSD_ALIGN_PARAMS, as a
                        // residual is
    struct topk_pair *room;  // with compression of several groups, of each its pairs,
    struct pair_list *lists; // (this rank's groups)
    struct pair_list *nodes; // and what they add up to (sum_tree.h)
    float   *own;       // this rank's portion of it
    void    *pack;      // compressed form
    float   *residual;  // of its block: in a buffer of its own, or all of the time in RAM
    size_t   block;
    size_t   unread;    // subgroups of the residual
    size_t   unwritten; // writes
    uint64_t step;
    double   most;      // what no magnitude in it exceeds
};

/* A subgroup's part of a gradient: what to write where its gradient area begins. */
struct grad_part {
    struct journal_grad sum;
    uint32_t            residual_crc;
    void               *bytes;
    size_t              n_bytes, payload;
};

struct gradients {
    struct scheduler       *sched;
    struct subs      *subs;
    struct gbuf      *bufs;      // (n_bufs), as route.h has them
    size_t            n_bufs;
    struct residual  *residuals; // (n blocks), if they stay in RAM
    struct grad_part *parts;     // (n_subs)
    struct task      *writes;    // (n_subs)
    struct task      *feedback;  // (n_subs) residuals' reads and writes, with error feedback
    struct topk_pair *pairs;     // of the largest block
    void             *scratch;
    void             *pair_scratch; // pair_sum's, and its sums of squares,
    double           *pair_sums;    // of several groups
    struct exchange   exchange;
    size_t            n_groups;      // this rank's
    struct sum_node  *nodes;         // what they add up to:
    size_t            n_nodes;
    struct sum_node  *leaves;        // (n_groups) themselves
    size_t            sent, written; // blocks of the step
    size_t            merged;        // of those sent; all ranks'
    int               ended;
};

void   gradients_tables(struct gradients *g, const struct store *st, struct arena *a);
void   gradients_lay(struct gradients *g, const struct store *st, struct arena *a); // the buffers
/* Of one buffer for these blocks: the dense form, its compressed form (of several groups also the
 * pairs of each, and of nodes), a residual beside it. */
struct gradient_bytes { size_t grad, pack, lists, residual; };
struct gradient_bytes gradients_bytes(const struct run_config *cfg, const struct store *st,
                                      struct route_span of);
int  gradients_open(struct gradients *g, struct err *err);
int  gradients_give_up(struct gradients *g); // exchanges under way; 0 as comm_give_up
void gradients_close(struct gradients *g); // accepts the zero state

/* The model's; all may wait, and take the lock. As stream_grad, stream_send_grad, stream_norm_end.
 */
int  gradients_lend(struct gradients *g, size_t block, size_t group, float **grad, int *fresh,
                    struct err *err);
int  gradients_send(struct gradients *g, size_t block, struct norm_sum *norm, struct err *err);
int  gradients_norm(struct gradients *g, struct norm_sum *norm, struct err *err);
/* Whatever can be read, exchanged or written is asked for; whether there was anything, or a
 * failure. */
int  gradients_advance(struct gradients *g, struct err *err);
void gradients_end(struct gradients *g, int skip);
void gradients_begin(struct gradients *g, int skip);
