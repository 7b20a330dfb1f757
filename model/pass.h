/* pass.h: a pass over a step's micro-batches that is under way, and what its parts (step.c,
 * words.c) do with the stream alike: spans for the report, gradients of groups. */
#pragma once

#include "model/batch.h"
#include "model/trainer_parts.h"

/* A pass over the micro-batches that `data` gives for `number`: a step's, or an evaluation's. */
struct pass {
    uint64_t step;            // under which its spans are recorded
    int      evaluates;       // all of them as PHASE_EVAL
    uint64_t number;
    size_t   micros, all_micros; // this rank's; all ranks'
    const struct batch_source *data;
    struct batch_counts n;    // of all ranks; n.counted is at least 1
    uint64_t scored, scored_before; // tokens or rows that have a loss; before this pass
    uint64_t start_ns;        // of the span that is open
    uint64_t before_ns;       // how long block 0 was waited for
    double   loss;
    struct norm_sum norm;  // of the gradients that were sent
};

/* The span that began at p->start_ns ends here. */
void pass_span(struct trainer *t, const struct pass *p, enum runlog_phase phase, size_t block);

/* Whether this rank's micro-batch has no rows in this pass. */
int pass_is_empty(const struct trainer *t, size_t micro);

/* Whether this pass makes a gradient of a block. It is complete: it is sent, if there is one. */
static inline int pass_trains(const struct trainer *t, const struct pass *p, size_t block)
{
    return !p->evaluates && t->trains[block];
}
int pass_send(struct trainer *t, struct pass *p, size_t block, struct err *err);

/* The gradient of a block that a micro-batch's is added to, that of its group. *fresh: becomes 1
 * where the group is begun: the matrices that products make are written then by the first of its
 * micro-batches that is not empty, all else is zero. NULL where the pass makes none. */
int pass_grad(struct trainer *t, struct pass *p, size_t block, size_t micro, float **grad,
              int *fresh, struct err *err);
