/* finetune_results.h: what a finished fine-tuning leaves beside its run: the results' files
 * (data/task/results.h), predictions of the test rows. Made from the run alone. */
#pragma once

#include "data/task/results.h"
#include "run/folder/result_files.h"
#include "run/sources/labelled.h"

struct finetune_results {
    char              dir[SESSION_PATH], model[SESSION_PATH + 16]; // RUN; RUN/best or RUN
    struct labelled   labelled;
    struct read_opts  read;     // how the model was trained
    struct examples  *test[TASK_SPLITS]; // rows whose predictions are to be written, or NULL
    uint64_t          test_rows; // of the larger of them
    struct results    results;   // as written; n_evals 0: there was no evaluation,
    uint64_t          step;      // which was after this step,
    char             *file;      // of these rows of one's own; NULL: a task's, or not known
    const struct events *events;
    struct result_files files;
};

/* Before a training, after so many steps: is somebody else's file where a result is to be? Then it
 * is refused now. */
int  finetune_results_check(struct session *s, uint64_t before, struct err *err);

/* Results' files of a run that is at its end. before: steps that were done when the command began;
 * where more have been since, predictions that are there are of older parameters. A file of
 * somebody else's in the place of one stays: finetune_results_predict says so, when all others are
 * written. */
int  finetune_results_write(struct finetune_results *out, struct session *s, uint64_t before,
                            struct err *err);
int  finetune_results_predict(struct finetune_results *o, struct err *err);
void finetune_results_release(struct finetune_results *o); // accepts the zero state
