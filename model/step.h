/* step.h: a training step and an evaluating pass. This is what the commands drive:
 *
 *     trainer_open(&t, &options, stream, &err)        once; allocates everything a step uses
 *     train_step(t, step, &data, &result, &err)       for every step, step from 0
 *     eval_step(t, step, &data, pass, ...)            when asked; between steps
 *     stream_drain(stream, &err)                      the end of the run, or of a wish to stop
 *     trainer_close(t)                                the stream stays the caller's
 *
 * The stream (offload/stream/stream.h) holds parameters and optimizer states and decides in which
 * mode; the trainer has no state of its own but for where activations are kept: what a step
 * computes depends on its number, the stream's parameters and the batch alone, so a run can be
 * resumed from them. */
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
    /* Where several ranks make a step together: model.grad_accum is what this one computes of its
     * micro-batches, which rank 0's are the first of. comm NULL: one process alone. groups: of this
     * rank's micro-batches, whose gradients are added apart (offload/layout/ranks.h); at least 1.
     */
    struct comm         *comm;
    size_t               groups;
};

/* A micro-batch. The source gets rows and seq as the largest that the trainer was opened for and
 * sets what really stands in it: fixed shapes leave them; varying ones (model.varying) may have
 * fewer rows (0: this step has no such micro-batch) and shorter ones, seq a multiple of 16 or the
 * largest. */
struct batch {
    size_t   rows, seq;
    int32_t *x;     // (rows, seq): tokens; what follows a row's last one is padding, any id of the
                    // vocabulary
    int32_t *y;     // (rows, seq): a language model's targets; below 0 it does not count
    int32_t *types; // (rows, seq): of tokens, NULL where the model has none
    int32_t *last;  // (rows): a classifier's or an encoder's last position that is not padding
    int32_t *label; // (rows): its class; below 0 the row does not count
    float   *value; // (rows): a regressor's value; it counts where label is 0 or more
};

/* Where batches come from: micro-batch `micro` of step `step`, of all ranks'. */
struct batch_source {
    int (*batch)(void *ctx, uint64_t step, size_t micro, struct batch *b, struct err *err);
    void *ctx;
};

struct step_result {
    double   loss;        // mean over the step's tokens; a classifier's: over its rows
    double   grad_norm;   // before clipping; NaN or infinite where a gradient is not finite
    double   lr, clip_factor;
    int      clipped, skipped; // skipped: loss or gradient not finite; parameters and moments stay
    size_t skip_block; // skipped: of the first gradient that is not finite; SIZE_MAX: only the loss
                       // is not
    uint64_t tokens;
    struct runlog_choice choice; // that was made before this step (adapt.h); layers 0: none
};

// mean loss: loss_sum / tokens (a classifier's rows)
struct eval_result { double loss_sum; uint64_t tokens; };

struct trainer; // opaque

int  trainer_open(struct trainer **out, const struct trainer_options *o, struct stream *stream,
                  struct err *err);
void trainer_close(struct trainer *t); // NULL is fine

/* One step. Returns when its update was asked for; the stream may still be at it. After an error
 * only stream_close is legal. */
int train_step(struct trainer *t, uint64_t step, const struct batch_source *data,
               struct step_result *out, struct err *err);

/* Losses of micro-batches 0..micros-1 (micros <= grad_accum, of all ranks) that data gives for
 * `pass`, in one pass over the parameters; added to *out. step: under which spans are recorded.
 * each, or NULL: a language model's losses (micros, batch, seq), a classifier's logits (micros,
 * batch, n_labels), by the largest shape; of several ranks with room for a step's. */
int eval_step(struct trainer *t, uint64_t step, const struct batch_source *data, uint64_t pass,
              size_t micros, float *each, struct eval_result *out, struct err *err);

/* What runs the products, for the run's row. */
const char *trainer_engine(const struct trainer *t);
