/* trainer.h: opens a training once: it checks the options and allocates everything that a step
 * uses. The trainer's only own state is the placement of activations. A step's result (step.h)
 * depends only on its number, the stream's parameters and the batch. A run can therefore be
 * resumed from these. */
#pragma once

#include "model/adapt.h"
#include "model/layer/model.h"
#include "model/layer/pairs.h"
#include "model/schedule.h"
#include "offload/stream/stream.h"

struct trainer_options {
    struct model_options model;    // with model.training 0, only eval_step is allowed
    struct schedule      schedule;
    double               clip;     // largest gradient norm; 0: no clipping
    enum optim_kind      optim;
    double               beta1, beta2, eps;
    struct pairs_options pairs;    // with model.paired
    enum adapt_policy    adapts;   // whether model.placement is only the first one
    /* Several ranks may compute a step together; comm NULL: one process alone. model.grad_accum
     * is the number of this rank's micro-batches. Rank 0 has the first micro-batches of the
     * step. groups: the number of this rank's gradient groups, at least 1. The gradients of each
     * group are summed separately (offload/layout/ranks.h). */
    struct comm         *comm;
    size_t               groups;
};

struct trainer; // trainer_parts.h

int  trainer_open(struct trainer **out, const struct trainer_options *o, struct stream *stream,
                  struct err *err);
void trainer_close(struct trainer *t); // NULL is allowed; the caller still owns the stream

/* The name of the matmul engine, for the run's database row. */
const char *trainer_engine(const struct trainer *t);
