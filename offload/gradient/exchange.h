/* exchange.h: gradients between ranks. Each rank has computed some groups' gradients of whole
 * blocks and added them as far as the tree goes (sum_tree.h); each gets from all others what they
 * have for its own portion, and adds it in the tree's order, whoever came first.
 *
 *     the exchange  is
 *     IDLE          nothing is under way                                 exchange_begin
 *     UNDER_WAY     portions of one block's gradient go and come         exchange_advance
 *     MERGING       they are the merger's, a thread of its own: it adds
 *                   them, sums their squares, and has them made ready
 *                   to be written
 *     MERGED        the portion is what all ranks computed               exchange_end: IDLE
 *
 * With compression pairs go and come (pair_sum.h): first how many, then they themselves.
 *
 * Sums of squares of this rank's portions are kept until the last block of the step is merged;
 * exchange_norm then shares them, and adds all in the order in which one process has them
 * (kernels/reduce.h). */
#pragma once

#include "comm/comm.h"
#include "offload/devices/scheduler.h"
#include "offload/gradient/grad_form.h"
#include "offload/gradient/pair_sum.h"
#include "offload/layout/store.h"

struct exchange {
    struct scheduler      *sched;
    struct sum_node *nodes;    // what ranks send of a gradient, in order;
    size_t          *first;    // (ranks + 1) whose is which
    size_t           rounds;   // the most that any sends
    void            *inbox;    // what others send of the largest portion
    struct comm_peer    *peers;    // (ranks)
    struct comm_request *requests, norm; // (rounds); of the sums
    float          **x;        // (nodes) what the merger adds;
    float          **slice;    // (nodes) a slice of each, and which nodes these are
    struct sum_node *work;
    struct pair_list *lists;   // (nodes) with compression: what the merger adds, and makes of it
    struct pair_list merged;
    void            *scratch;  // pair_sum's
    uint64_t        *come;     // (nodes) pairs that they have of this rank's portion, told by all
    uint64_t        *go;       // (ranks, this rank's nodes) what is told to them
    int              tells;    // they are on their way, the pairs not yet
    float *const           *dense; // what this rank sends of the block under way,
    const struct pair_list *pairs; // in either form
    uint64_t         sent, came;   // bytes of it
    double          *sums;     // of squares, of all ranks' portions: rank by rank, block by block
    size_t          *sums_at;  // (ranks x blocks + 1) where a rank's of a block begin
    void           (*ready)(void *ctx, size_t block); // a merged portion is to be written; the
    void            *ctx;                             // merger calls it
    enum { EXCHANGE_IDLE, EXCHANGE_UNDER_WAY, EXCHANGE_MERGING, EXCHANGE_MERGED } state;
    size_t           block;
    uint64_t         since;    // clock_ns
    struct thread    merger;   // its lock guards the state
};

void exchange_tables(struct exchange *x, const struct run_config *cfg, struct arena *a);
int  exchange_open(struct exchange *x, struct err *err);
/* Both accept the zero state. What is under way is given up first: 0 as comm_give_up. */
int  exchange_give_up(struct exchange *x);
void exchange_close(struct exchange *x);

/* x->state is IDLE: begin with a block's nodes, whole gradients, which stay where they are until it
 * has ended. This rank's portion of all is in its place in the first one, then. */
int  exchange_begin(struct exchange *x, size_t block, float *const *nodes, struct err *err);
/* With compression; this rank's portion of all is x->merged, until ready() returns. */
int  exchange_begin_pairs(struct exchange *x, size_t block, const struct pair_list *nodes,
                          struct err *err);
/* 1: something moved on; 0; or a failure. */
int  exchange_advance(struct exchange *x, struct err *err);
int  exchange_state(struct exchange *x);
void exchange_end(struct exchange *x);

/* Sums of squares of this rank's portion of a merged block: how many, and which. */
size_t        exchange_sums(const struct exchange *x, size_t block);
const double *exchange_sum(const struct exchange *x, size_t block);

/* The model's thread, when all blocks of the step are merged: of all ranks. */
int  exchange_norm(struct exchange *x, struct norm_sum *norm, struct err *err);
