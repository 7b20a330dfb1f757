/* evaluate.h: evaluates a model. For a language model: its loss over token files, in consecutive
 * rows from the start of each file. For a classifier or a regressor: loss and metrics over labelled
 * examples. */
#pragma once

#include "data/task/examples.h"
#include "data/task/results.h"
#include "data/text/mixture.h"
#include "run/folder/events.h"
#include "run/sources/masking.h"

/* What an evaluation needs: a trainer, and the sizes that it was opened with. The trainer is the
 * training's own, between steps, or that of a model that is only read (model_folder_evaluator). */
struct evaluator {
    struct trainer      *trainer;
    size_t               batch, seq, grad_accum, vocab;
    const struct events *events;
    struct stream       *stream; // only of a model that is only read
    const struct masking *masking; // of a masked language model; otherwise NULL
};

/* In all of these functions, `step` labels the recorded spans. They return -EINTR if a stop was
 * requested. */

/* Mean loss of all rows of one token file, or of several, whose rows follow one another. data->rows
 * is set. The last pass is padded with targets that do not count. *tokens: the number of targets
 * that count. For a masked language model these are the masked tokens, which are identical in every
 * evaluation. Misuse if there is not one row. */
int evaluate_tokens(const struct evaluator *e, struct mixture *data, uint64_t step, double *loss,
                    uint64_t *tokens, struct err *err);

/* Loss and the task's metrics. All are NaN if a logit is not finite. */
int evaluate_examples(const struct evaluator *e, const struct examples *x, const struct task *task,
                      uint64_t step, struct results_eval *out, struct err *err);

/* The model's prediction for each row, in the format of results_predictions. The caller frees
 * *text. -ERANGE if a logit is not finite. */
int evaluate_predict(const struct evaluator *e, const struct examples *x, const struct task *task,
                     char **text, size_t *bytes, struct err *err);

/* Bytes for the predictions of n rows, without the batches. The memory plan counts them. written:
 * they are written with their probabilities, too. */
uint64_t predictions_bytes(uint64_t n, size_t n_labels, int written);

/* Fill a micro-batch with n rows (0 is allowed). Row i of it is row(ctx, i) of the examples. b->seq
 * becomes the longest row's length, rounded up to a multiple of 16, but not above its value before.
 * Shorter rows are padded. */
int evaluate_fill(struct batch *b, const struct examples *x, size_t n,
                  uint64_t (*row)(const void *ctx, size_t i), const void *ctx, struct err *err);
