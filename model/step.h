/* step.h: a training step and an evaluating pass. This is what the commands drive:
 *
 *     trainer_open(&t, &options, stream, &err)        once; allocates everything a step uses
 *     train_step(t, step, &data, &result, &err)       for every step, step from 0
 *     eval_step(t, step, &data, pass, ...)            when asked; between steps
 *     stream_drain(stream, &err)                      the end of the run, or of a wish to stop
 *     trainer_close(t)                                the stream stays the caller's
 *
 * The stream (offload/stream/stream.h) holds parameters and optimizer states and decides in
 * which mode. */
#pragma once

#include "model/batch.h"
#include "model/trainer.h"

struct step_result {
    double   loss;        // mean over what counts in the step: targets, a classifier's rows
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
