/* results.h: the files that a fine-tuning leaves in its folder for other programs. They have the
 * names, keys and units of Hugging Face's run_glue.py, so scripts that read its files can read
 * these. Each file is complete or absent (data/file/file.h). A number that is not finite is
 * written as null, because Python's NaN and Infinity are not JSON. As in transformers, seconds
 * are rounded to 4 decimals and rates to 3. Keys are sorted.
 *
 * train_results.json: epoch (passes over the training rows, a fraction), total_flos
 *     (operations), train_loss (mean of the steps' finite losses), train_finite_steps (number
 *     of those steps, if not all), train_runtime (seconds of the steps, without evaluations),
 *     train_samples (rows of an epoch), train_samples_per_second, train_steps_per_second.
 * eval_results.json: epoch, eval_loss, eval_METRIC for the task's metrics, eval_combined_score
 *     (their mean, if there are two: MRPC, QQP, STS-B), eval_runtime (seconds), eval_samples,
 *     eval_samples_per_second, eval_steps_per_second (a step is a batch). MNLI's mismatched
 *     part has all these keys, epoch too, with the suffix _mm.
 *     A language model's task has no metrics; perplexity (without eval_ in front, as in
 *     transformers' example for causal language models) is the exponential of eval_loss. Pairs of
 *     answers have eval_rewards/chosen and kin instead, as in TRL.
 * all_results.json: the keys of both.
 * trainer_state.json: the run's counters and log_history. The history has a row {epoch,
 *     grad_norm, learning_rate, loss, step} for every logging_steps steps. Its loss is the mean
 *     of the finite losses since the row before (finite_steps: their number, if not all). Its
 *     norm and rate are those of that step. Of pairs, it has rewards/chosen and kin, too, the means
 *     since the row before. Every evaluation has a row {epoch, eval_NAME ...,
 *     step} with the names of run.db's table evals. The last row has the training's figures.
 *     The file is made from run.db, so it is complete for a run that was stopped and resumed.
 *     Steps count from 1 here, from 0 in run.db.
 * predict_results_TASK.txt: "index\tprediction", for a classifier also "p_NAME" for each class's
 * probability, then a line for each row: the label's name, or
 *     the value with 3 decimals. TASK is the task's name, mnli-mm for the mismatched part, or
 *     None for a user's files, as in run_glue.py. */
#pragma once

#include "data/base/err.h"
#include "data/db/runlog.h"
#include "data/task/task.h"

/* What an evaluation of pairs of answers has besides the loss, by TRL's names: rewards/chosen,
 * rewards/rejected, rewards/accuracies, rewards/margins. */
enum { RESULTS_REWARDS = 4 };
extern const char *const results_rewards[RESULTS_REWARDS];

struct results_eval {             // of one file; split: its place in task's dev and tests
    double   loss;                // mean over its rows
    double   metric[TASK_METRICS]; // of task->metric, in its order
    double   seconds;
    uint64_t samples, batches;
    double   rewards[RESULTS_REWARDS]; // of pairs
};

/* run_glue.py's combined_score: the mean of the task's metrics. */
double results_combined(const struct task *task, const struct results_eval *e);

struct results {
    const struct task *task;
    int      paired;              // its rows are pairs of answers
    uint64_t train_samples;       // rows of an epoch
    uint64_t steps_per_epoch;     // optimizer steps, at least 1: turns a step into an epoch
    uint64_t epochs, max_steps; // asked for: passes over the rows (rounded up), steps of the run
    uint64_t train_batch;       // rows of a micro-batch: run_glue.py's per_device_train_batch_size
    uint64_t logging_steps;     // steps of a row of the history, at least 1
    uint64_t eval_steps, save_steps; // steps between evaluations and between commits
    /* Operations of forward and backward; transformers counts 6 per parameter outside the
     * embeddings. */
    double flops_per_token;
    /* Where --keep-best stored the best checkpoint. NULL: not asked for, or none yet. */
    const char *best_checkpoint;
    uint64_t    best_step;   // its last step, from 0 as in run.db
    double      best_metric; // of task->metric[0] (eval_loss for tasks that have none)
    /* Writes a file of this name. NULL: files go into results_write's folder, by
     * file_write_whole. */
    int    (*put)(void *ctx, const char *name, const char *text, size_t n, struct err *err);
    void    *put_ctx;
    size_t   n_evals;             // 0: no eval_results.json
    struct results_eval eval[TASK_SPLITS];
};

/* Writes the four JSON files into `dir`, which exists. Steps, losses, tokens, times and
 * evaluations of the training come from `log`. If log is NULL, there was only an evaluation
 * (eval --task). Then only task, n_evals and eval are read, and the two files of the training
 * are not written. */
int results_write(const char *dir, struct runlog *log, const struct results *r, struct err *err);

/* Writes the name of the predictions of task->tests[split], predict_results_TASK.txt, into out. */
void results_predictions_name(char *out, size_t size, const struct task *task, size_t split);

/* Makes the text of a predictions file of n rows, malloced. logits (n, n_labels): of a row, as the
 * model has them; of a regression (n_labels 1), the values. classes (n): the predicted ones; a
 * regression has none. */
int results_predictions(char **text, size_t *bytes, const struct task *task, const int32_t *classes,
                        const float *logits, size_t n, struct err *err);
