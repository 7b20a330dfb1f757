/* exchange.h: gradients between ranks. Each rank has computed the gradients of some groups for
 * whole blocks, and added them to nodes of the tree (sum_tree.h). Each rank gets from all others
 * their nodes of its own portion, and adds them in the tree's order, whichever came first.
 *
 *     the exchange  is
 *     IDLE          nothing is under way                                 exchange_begin
 *     UNDER_WAY     portions of one block's gradient are sent and        exchange_advance
 *                   received
 *     MERGING       the thread "merger" adds them, sums their squares,
 *                   and calls ready()
 *     MERGED        the portion is what all ranks computed               exchange_end: IDLE
 *
 * With compression pairs are exchanged (pair_sum.h): first their numbers, then the pairs.
 *
 * Sums of squares of this rank's portions are kept until the last block of the step is merged.
 * exchange_norm then shares them, and adds the sums of all ranks in the order of one process
 * (kernels/update/reduce.h). Calls are the scheduler's thread's, unless they say otherwise. */
#pragma once

#include "comm/comm.h"
#include "offload/devices/scheduler.h"
#include "offload/gradient/grad_form.h"
#include "offload/gradient/pair_sum.h"
#include "offload/layout/store.h"

enum exchange_phase { EXCHANGE_IDLE, EXCHANGE_UNDER_WAY, EXCHANGE_MERGING, EXCHANGE_MERGED };

struct exchange {
    struct scheduler *sched;
    struct sum_node *nodes;    // (nodes) of all ranks, in order
    size_t          *first;    // (ranks + 1) the first node of each rank
    size_t           rounds;   // the most nodes that any rank sends
    void            *inbox;    // other ranks' nodes of the largest portion
    struct comm_peer    *peers;    // (ranks)
    struct comm_request *requests; // (rounds)
    struct comm_request  norm;     // of the sums
    float          **x;        // (nodes) the values that the merger adds
    float          **slice;    // (nodes) a slice of each
    struct sum_node *work;     // (nodes) the nodes of these slices
    struct pair_list *lists;   // (nodes) with compression: the pairs that the merger adds
    struct pair_list merged;   // with compression: their sum
    void            *scratch;  // pair_sum's
    uint64_t        *come;     // (nodes) pairs of this rank's portion that each node has
    uint64_t        *go;       // (ranks, rounds) pairs that this rank has for each other rank
    int              tells;    // true while these numbers are under way, before the pairs
    float *const           *dense; // this rank's nodes of the block under way, dense
    const struct pair_list *pairs; // or compressed
    uint64_t         sent, came;   // bytes of the block
    double          *sums;     // of squares, of all ranks' portions, by rank, then by block
    size_t          *sums_at;  // (ranks x blocks + 1) where they begin
    void           (*ready)(void *ctx, size_t block); // called by the merger when a portion is
    void            *ctx;                             // merged, before the state changes
    enum exchange_phase state;
    size_t           block;
    uint64_t         since;    // clock_ns
    struct thread    merger;   // its lock guards the state
};

void exchange_tables(struct exchange *x, const struct run_config *cfg, struct arena *a);
int  exchange_open(struct exchange *x, struct err *err);
/* Both accept the zero state. Before a close after a failure, give_up ends what is under way; it
 * returns as comm_give_up. */
int  exchange_give_up(struct exchange *x);
void exchange_close(struct exchange *x);

/* Begin with the nodes of a block, whole gradients, which stay in place until the end. The sum of
 * this rank's portion is then in its place in the first node. The state must be IDLE. */
int  exchange_begin(struct exchange *x, size_t block, float *const *nodes, struct err *err);
/* exchange_begin with compression. The sum is in x->merged until ready() returns. */
int  exchange_begin_pairs(struct exchange *x, size_t block, const struct pair_list *nodes,
                          struct err *err);
/* 1: something moved on; 0: nothing did; or -errno. */
int  exchange_advance(struct exchange *x, struct err *err);
enum exchange_phase exchange_state(struct exchange *x); // any thread
void exchange_end(struct exchange *x);

/* The number of sums of squares of this rank's portion of a merged block, and the sums. */
size_t        exchange_sums(const struct exchange *x, size_t block);
const double *exchange_sum(const struct exchange *x, size_t block);

/* The norm over all ranks, when all blocks of the step are merged. The model's thread; waits. */
int  exchange_norm(struct exchange *x, struct norm_sum *norm, struct err *err);
