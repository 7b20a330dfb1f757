/* step.h: a training step and an evaluation pass. The commands drive it as follows:
 *
 *     trainer_open(&t, &options, stream, &err)        once; allocates everything a step uses
 *     train_step(t, step, &data, &result, &err)       for every step, step from 0
 *     eval_step(t, step, &data, pass, ...)            between steps, when asked for
 *     stream_drain(stream, &err)                      at the end of the run, or before stopping
 *     trainer_close(t)                                the caller still owns the stream
 *
 * The stream (offload/stream/stream.h) holds parameters and optimizer states, and the stream's
 * mode decides where. */
#pragma once

#include "model/batch.h"
#include "model/trainer.h"

struct step_result {
    double   loss;        // mean over the counted targets, a classifier's rows, or pairs
    double   grad_norm;   // before clipping; NaN or infinite if a gradient is not finite
    double   lr, clip_factor;
    int      clipped, skipped; // skipped: loss or gradient not finite; parameters and moments are
                               // unchanged
    size_t skip_block; // skipped: block of the first gradient that is not finite; SIZE_MAX: only
                       // the loss is not finite
    uint64_t tokens;
    struct runlog_rewards rewards; // of pairs; pairs 0: there are none
    struct runlog_choice choice; // placement chosen before this step (adapt.h); layers 0: none
};

// mean loss: loss_sum / tokens; a classifier's tokens are its rows; with model.paired they are
// pairs, whose sums are there, too
struct eval_result { double loss_sum; uint64_t tokens; struct pairs_sums pairs; };

/* Runs one step. It returns when the update was requested; the stream may still be working on
 * it. After an error only stream_close is legal. */
int train_step(struct trainer *t, uint64_t step, const struct batch_source *data,
               struct step_result *out, struct err *err);

/* Computes in one pass the losses of micro-batches 0..micros-1 that data supplies for `pass`. It
 * adds them to *out. micros counts all ranks and is at most their grad_accum. step: the step
 * number of the spans. each, or NULL: receives a language model's losses (micros, batch, seq),
 * or a classifier's logits (micros, batch, n_labels), in the largest shape. With several ranks,
 * each must have room for a whole step. */
int eval_step(struct trainer *t, uint64_t step, const struct batch_source *data, uint64_t pass,
              size_t micros, float *each, struct eval_result *out, struct err *err);
