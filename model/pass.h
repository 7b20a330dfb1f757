/* pass.h: the state of a pass over a step's micro-batches, and the operations on the stream that
 * step.c and vocab.c share: spans for the report, and gradients of groups. */
#pragma once

#include "model/batch.h"
#include "model/trainer_parts.h"

/* A pass over the micro-batches that `data` supplies for `number`, the number of a step or an
 * evaluation. */
struct pass {
    uint64_t step;            // step number of its spans
    int      evaluates;       // evaluation: all spans are PHASE_EVAL
    uint64_t number;
    size_t   micros, all_micros; // of this rank; of all ranks
    const struct batch_source *data;
    struct batch_counts n;    // counts of all ranks; n.counted is at least 1
    uint64_t scored, scored_before; // tokens or rows with a loss; and before this pass
    uint64_t start_ns;        // start of the open span
    uint64_t before_ns;       // time waited for block 0
    double   loss;
    struct pairs_sums pairs; // with model.paired
    struct norm_sum norm;  // norm of the gradients sent
};

/* Ends the span that began at p->start_ns. */
void pass_span(struct trainer *t, const struct pass *p, enum runlog_phase phase, size_t block);

/* True if this rank's micro-batch has no rows in this pass. */
int pass_is_empty(const struct trainer *t, size_t micro);

/* pass_trains: true if this pass computes a gradient of the block. pass_send: the gradient is
 * complete; it is sent if pass_trains. */
static inline int pass_trains(const struct trainer *t, const struct pass *p, size_t block)
{
    return !p->evaluates && t->trains[block];
}
int pass_send(struct trainer *t, struct pass *p, size_t block, struct err *err);

/* The gradient of a block to which a micro-batch adds: the gradient of its group. *grad is NULL
 * if the pass computes none. *fresh becomes 1 if the group begins. Then the first micro-batch of
 * the group that is not empty writes the products' matrices; all other gradients are zero. */
int pass_grad(struct trainer *t, struct pass *p, size_t block, size_t micro, float **grad,
              int *fresh, struct err *err);
