/* eval_task.h: a classifier or regressor on a task's rows, or one's own. */
#ifndef CMD_EVAL_TASK_H
#define CMD_EVAL_TASK_H

#include "cmd/run/model_folder.h"
#include "cmd/run/train_opts.h"
#include "data/task/task.h"

#include <stdio.h>

struct eval_opts {
    const char *model, *data; // data: a text or tokens; with task its folder
    const char *tokenizer;    // NULL: the model's
    const char *task;         // of GLUE; or
    const char *eval_file, *test_file; // one's own rows, labelled as the model calls its classes
    const char *predict; // a file for predictions of the test rows, MNLI's mismatched ones with -mm
                         // behind; NULL: none
    struct task_names columns; // of one's own rows; those not asked for are the run's own
    uint64_t          max_seq; // 0: 128, or what the model has
    uint64_t          max_eval, max_predict; // rows; 0: all
    struct read_opts  read;
};

/* What eval's temporary folder is called; what others that were killed left is removed by the next
 * one. */
#define EVAL_SCRATCH P_tmpdir "/sitrain-eval"

/* Loss and metrics on stdout. */
int eval_task(const struct model_folder *r, const struct eval_opts *e, struct err *err);

#endif
