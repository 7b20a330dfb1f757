/* eval_task.h: a classifier or regressor on a task's rows, or one's own. */
#ifndef CMD_EVAL_TASK_H
#define CMD_EVAL_TASK_H

#include "cmd/run/model_folder.h"
#include "data/task/task.h"

#include <stdio.h>

struct eval_task {
    const char *model;                // what r was opened with
    const char *task, *data;          // a GLUE task and its folder; or
    const char *eval_file,
        *test_file;      // one's own rows, whose labels are called as the model calls its classes
    struct task_names columns; // of one's own rows; those not asked for are the run's own
    const char       *predict; // a file for the predictions of the test rows; NULL: none. MNLI's
                         // mismatched ones: with -mm behind
    const char *tokenizer;            // NULL: the model's
    size_t      max_seq;              // 0: 128, or what the model has
    uint64_t    max_eval, max_predict; // rows; 0: all
};

/* What eval's temporary folder is called; what others that were killed left is removed by the next
 * one. */
#define EVAL_SCRATCH P_tmpdir "/sitrain-eval"

/* Loss and metrics on stdout. */
int eval_task(const struct model_folder *r, const struct eval_task *e, const struct read_opts *o,
              struct err *err);

#endif
