/* results.h: what a fine-tuning leaves in its folder for other programs: the files of Hugging
 * Face's run_glue.py, with its names, keys and units, so that a script that reads those reads
 * these. Every file is whole or absent (data/base/file.h). A number that is not finite is written
 * as null: transformers writes Python's NaN and Infinity, which are no JSON. Seconds are rounded to
 * 4 decimals and rates to 3, as transformers does; keys are sorted.
 *
 * train_results.json: epoch (passes over the training rows, a fraction), total_flos (operations),
 *     train_loss (mean of the steps' losses that are numbers), train_finite_steps (of how many
 *     steps, where that is not all of them), train_runtime (s: of the steps, evaluations not
 *     included), train_samples (rows of an epoch), train_samples_per_second,
 *     train_steps_per_second.
 * eval_results.json: epoch, eval_loss, eval_METRIC for the task's metrics, eval_combined_score
 *     (their mean, where there are two: MRPC, QQP, STS-B), eval_runtime (s), eval_samples,
 *     eval_samples_per_second, eval_steps_per_second (a step: a batch); MNLI's mismatched part has
 *     the same keys, epoch too, with _mm behind.
 * all_results.json: both.
 * trainer_state.json: the run's counters and log_history: every logging_steps steps {epoch,
 *     grad_norm, learning_rate, loss, step}, loss being the mean of those since the row before
 *     that are numbers (finite_steps: of how many, where not of all), norm and rate (per step) that
 *     step's own; every evaluation {epoch, eval_NAME ..., step} with the names
 *     of run.db's table evals; last the training's figures. It is made from run.db, so a run that
 *     was stopped and resumed has all of it. Steps count from 1 here, from 0 in run.db.
 * predict_results_TASK.txt: "index\tprediction", then a row a line: the label's name, or the value
 *     with 3 decimals. TASK is the task's name; mnli-mm for the mismatched part; None for one's own
 *     files, as run_glue.py has it. */
#pragma once

#include "data/base/err.h"
#include "data/db/runlog.h"
#include "data/task/task.h"

struct results_eval {             // of one file; split: its place in task's dev and tests
    double   loss;                // mean over its rows
    double   metric[TASK_METRICS]; // of task->metric, in its order
    double   seconds;
    uint64_t samples, batches;
};

/* run_glue.py's combined_score: the mean of the task's metrics. */
double results_combined(const struct task *task, const struct results_eval *e);

struct results {
    const struct task *task;
    uint64_t train_samples;       // rows of an epoch
    uint64_t steps_per_epoch;     // optimizer steps, at least 1: turns a step into an epoch
    uint64_t epochs, max_steps; // asked for: passes over the rows (rounded up), steps of the run
    uint64_t train_batch;       // rows of a micro-batch: run_glue.py's per_device_train_batch_size
    uint64_t logging_steps;     // steps of a row of the history, at least 1
    uint64_t eval_steps, save_steps; // steps between evaluations and between commits
    /* Forward and backward; transformers: 6 a parameter that is no embedding. */
    double flops_per_token;
    /* Where --keep-best put the best one; NULL: not asked for, or none yet. */
    const char *best_checkpoint;
    uint64_t    best_step;   // its last step, from 0 as in run.db
    double      best_metric; // of task->metric[0] (eval_loss for tasks that have none)
    /* Writes a file of this name; NULL: into results_write's folder, as file_write_whole does. */
    int    (*put)(void *ctx, const char *name, const char *text, size_t n, struct err *err);
    void    *put_ctx;
    size_t   n_evals;             // 0: no eval_results.json
    struct results_eval eval[TASK_SPLITS];
};

/* Write the four JSON files into `dir`, which exists. Steps, losses, tokens, times and evaluations
 * of the training are log's; NULL: only evaluated (eval --task): the training's two files are not
 * written, and only task, n_evals and eval are read. */
int results_write(const char *dir, struct runlog *log, const struct results *r, struct err *err);

/* predict_results_TASK.txt: how the predictions of task->tests[split] are called. */
void results_predictions_name(char *out, size_t size, const struct task *task, size_t split);

/* What such a file says of n rows, malloced: classes[i], or values[i] where the task is regression
 * (n_labels 1); the other one may be NULL. */
int results_predictions(char **text, size_t *bytes, const struct task *task, const int32_t *classes,
                        const float *values, size_t n, struct err *err);
