/* finetune_begin.h: the options of `siTrain finetune`, and how a fine-tuning begins, whatever its
 * rows are. Classifiers and regressors are finetune.c's, conversations finetune_chat.c's. */
#pragma once

#include "data/opt/opt.h"
#include "run/folder/session.h"
#include "run/folder/tune_opts.h"
#include "run/loop/model_folder.h"
#include "run/newrun.h"

struct finetune_opts {
    const char       *config, *run, *resume, *data, *init, *base, *tokenizer;
    uint64_t          from;
    struct tune_opts  tune;
    struct task_names columns;
    struct chat_opts  chat;
    struct pairs_opts pairs;
    struct train_opts train;
};

/* Refuses options that no new run can have, whatever its rows are. */
int finetune_check(const struct opt_line *line, struct err *err);
/* Opens the model of --init, and sets what n takes from it. Caller closes init, also after an
 * error. n->line and n->comm are set. */
int finetune_init(struct model_folder *init, struct newrun *n, struct err *err);
