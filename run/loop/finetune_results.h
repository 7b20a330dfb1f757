/* finetune_results.h: the files that a completed fine-tuning writes into RUN: results
 * (data/task/results.h) and predictions of the test rows. They depend only on the run. */
#pragma once

#include "data/task/results.h"
#include "run/folder/read_opts.h"
#include "run/folder/result_files.h"
#include "run/loop/ending.h"
#include "run/sources/task_files.h"

struct finetune_results {
    char              dir[SESSION_PATH], model[SESSION_PATH + 16]; // RUN; RUN/best or RUN
    int               adapted; // the model is that adapter on the base in RUN
    struct task_labels   labels;
    struct read_opts  read;     // sizes and dtype as in training
    struct examples  *test[TASK_SPLITS]; // rows to predict, or NULL
    uint64_t          test_rows; // rows of the larger test file
    struct results    results;   // as written; n_evals 0: no evaluation
    uint64_t          step;      // the evaluation followed this step
    enum ending_how   how;       // what is recorded when all is written
    char             *file;      // the user's own evaluation file; NULL: a task's, or unknown
    const struct events *events;
    struct result_files files;
};

/* Check before training, at step `before`, that no result file would replace somebody else's
 * file. */
int  finetune_results_check(struct session *s, uint64_t before, struct err *err);

/* Write the result files of a run that has reached its last step. When they are written, and the
 * predictions too if there are any, the run is finished (ending_record). before: the steps done
 * when the command began. If more steps are done now, existing predictions are outdated. A file of
 * somebody else is not replaced; finetune_results_predict returns that error after it has written
 * the other files. */
int  finetune_results_write(struct finetune_results *out, struct session *s, uint64_t before,
                            struct err *err);
int  finetune_results_predict(struct finetune_results *o, struct err *err);
void finetune_results_release(struct finetune_results *o); // accepts the zero state
