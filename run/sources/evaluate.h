/* evaluate.h: what a model is worth: a language model's loss over a whole token file (rows one
 * after the other from its beginning, each token but the first of a row's range predicted once), a
 * classifier's or regressor's loss and metrics over labelled examples. */
#pragma once

#include "data/task/examples.h"
#include "data/task/results.h"
#include "data/text/tokens.h"
#include "model/step.h"
#include "run/folder/events.h"
#include "run/sources/masking.h"

/* Who evaluates: a trainer between steps, or that of a model that is only read
 * (model_folder_evaluator), and the sizes that it was opened for. */
struct evaluator {
    struct trainer      *trainer;
    size_t               batch, seq, grad_accum, vocab;
    const struct events *events;
    struct stream       *stream; // of a model that is only read
    const struct masking *masking; // of a masked language model; else NULL
};

/* In all of these, step: under which spans are recorded. -EINTR where the end was asked for. */

/* Mean loss of all rows of a token file; a last pass that is not full is padded with targets that
 * do not count. *tokens: those that did. Of a masked language model: of the tokens that are masked,
 * which are the same in every evaluation. */
int evaluate_tokens(const struct evaluator *e, struct tokens *data, uint64_t step, double *loss,
                    uint64_t *tokens, struct err *err);

/* Loss and the task's metrics; all are NaN where a logit is not finite. */
int evaluate_examples(const struct evaluator *e, const struct examples *x, const struct task *task,
                      uint64_t step, struct results_eval *out, struct err *err);

/* What the model says of each row, as results_predictions has it; caller frees *text. -ERANGE where
 * a logit is not finite. */
int evaluate_predict(const struct evaluator *e, const struct examples *x, const struct task *task,
                     char **text, size_t *bytes, struct err *err);

/* Bytes that n rows take in either, beside the batches: for the memory plan. */
uint64_t predictions_bytes(uint64_t n, size_t n_labels);

/* A micro-batch of n rows (0 is fine), number i of which is row(ctx, i) of the examples: padded to
 * the longest, rounded up to a multiple of 16, at most what *b allows. */
int evaluate_fill(struct batch *b, const struct examples *x, size_t n,
                  uint64_t (*row)(const void *ctx, size_t i), const void *ctx, struct err *err);
