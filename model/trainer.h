/* trainer.h: what a training is opened with, once: its options are checked, and everything that a
 * step uses is allocated. The trainer has no state of its own but for where activations are kept:
 * what a step computes (step.h) depends on its number, the stream's parameters and the batch alone,
 * so a run can be resumed from them. */
#pragma once

#include "model/adapt.h"
#include "model/model.h"
#include "model/schedule.h"
#include "offload/stream/stream.h"

struct trainer_options {
    struct model_options model;    // model.training 0: eval_step only
    struct schedule      schedule;
    double               clip;     // largest gradient norm; 0: no clipping
    enum optim_kind      optim;
    double               beta1, beta2, eps;
    enum adapt_policy    adapts;   // whether model.ways are only the first
    /* Where several ranks make a step together: model.grad_accum is what this one computes of
     * its micro-batches, which rank 0's are the first of. comm NULL: one process alone. groups:
     * of this rank's micro-batches, whose gradients are added apart (offload/layout/ranks.h); at
     * least 1. */
    struct comm         *comm;
    size_t               groups;
};

struct trainer; // trainer_parts.h

int  trainer_open(struct trainer **out, const struct trainer_options *o, struct stream *stream,
                  struct err *err);
void trainer_close(struct trainer *t); // NULL is fine; the stream stays the caller's

/* What runs the products, for the run's row. */
const char *trainer_engine(const struct trainer *t);
