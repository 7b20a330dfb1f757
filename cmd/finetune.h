/* finetune.h: the options of `siTrain finetune`, and its second kind of task: a language model that
 * learns from conversations (finetune_chat.c). Classifiers and regressors are finetune.c's. */
#pragma once

#include "cmd/cmd.h"
#include "run/folder/pairs_opts.h"
#include "run/folder/session.h"
#include "run/loop/finetune_results.h"

struct finetune_opts {
    const char       *config, *run, *resume, *data, *init, *base, *tokenizer;
    struct tune_opts  tune;
    struct task_names columns;
    struct chat_opts  chat;
    struct pairs_opts pairs;
    struct train_opts train;
};

/* Make a new run whose rows are conversations or preferences. */
int finetune_chat_make(const char *dir, struct opt_line *line, struct comm *comm, struct err *err);

/* Print the last evaluation. */
void finetune_chat_print(const struct finetune_results *o);
