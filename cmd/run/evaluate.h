/* evaluate.h: what a model is worth: a language model's loss over a whole token file (rows one
 * after the other from its beginning, each token but the first of a row's range predicted once), a
 * classifier's or regressor's loss and metrics over labelled examples. */
#ifndef CMD_RUN_EVALUATE_H
#define CMD_RUN_EVALUATE_H

#include "cmd/run/events.h"
#include "data/task/examples.h"
#include "data/task/results.h"
#include "data/text/tokens.h"
#include "model/step.h"

struct evaluate {
    size_t               batch, seq, grad_accum, vocab; // the trainer's
    const struct events *events;
};

/* Rows that a file has. */
uint64_t evaluate_rows(const struct tokens *t, size_t seq);

/* Mean loss of all rows; a last pass that is not full is padded with targets that do not
 * count. step: for the spans. */
int evaluate(double *loss, uint64_t *tokens, struct trainer *t, struct tokens *data,
             const struct evaluate *e, uint64_t step, struct err *err);

/* What a model says of each row, and what is true: classes and their labels, or a regressor's
 * values and theirs; the others are NULL. */
struct predictions {
    int32_t *classes, *labels;
    float   *values, *truth;
    size_t   n;
};
void predictions_free(struct predictions *p); // accepts the zero state

/* Bytes that they take for n rows, the scratch of the metrics with them: for the memory plan. */
uint64_t predictions_bytes(uint64_t n, size_t n_labels);

/* Every row of the examples, in order: predictions of a model of n_labels, and the sum of their
 * losses. step: for the spans. */
int evaluate_predict(struct predictions *out, double *loss_sum, struct trainer *t,
                     const struct examples *x, const struct evaluate *e, size_t n_labels,
                     uint64_t step, struct err *err);

/* Loss and the task's metrics. */
int evaluate_examples(struct results_eval *out, struct trainer *t, const struct examples *x,
                      const struct evaluate *e, const struct task *task, uint64_t step,
                      struct err *err);

/* The mean of a task's two metrics; what run_glue.py calls combined_score. */
double evaluate_combined(const struct task *task, const struct results_eval *v);

/* A micro-batch of n rows (0 is fine), number i of which is row(ctx, i) of the examples: padded to
 * the longest, rounded up to a multiple of 16, at most what *b allows. */
int evaluate_fill(struct batch *b, const struct examples *x, size_t n,
                  uint64_t (*row)(const void *ctx, size_t i), const void *ctx, struct err *err);

#endif
