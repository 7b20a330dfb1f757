/* eval.h: the options of `siTrain eval`, and its second kind of rows: conversations and preferences
 * (eval_chat.c). Texts, tokens and labelled rows are eval.c's. */
#pragma once

#include "cmd/cmd.h"
#include "data/file/file.h"
#include "run/folder/tune_opts.h"
#include "run/loop/model_folder.h"

struct eval_opts {
    const char *model;
    struct opt_strings data;  // texts or tokens; with `task` the task's folder
    int         data_format;
    const char *tokenizer;    // NULL: the model's
    const char *task;         // of GLUE; or chat, dpo; NULL: own rows
    struct opt_strings eval_files; // own rows: conversations, or the first one with labels named
    const char *test_file;         // like the model's classes
    const char *predict; // file for predictions (NULL: none); MNLI's mismatched: NAME-mm
    struct task_names columns; // of own rows; others default to the run's
    uint64_t          max_seq; // 0: 128, or the model's limit
    uint64_t          max_eval, max_predict; // rows; 0: all
    struct mask_opts  mask;                  // prob 0: the run's, or 15%
    struct read_opts  read;
    struct which_opts which;
    struct chat_opts  chat;
    struct pairs_opts pairs;
    const char       *reference; // of preferences
};

/* Open a file without a name, in a temporary folder: its name is removed as soon as it is open
 * (file_new_abort). Files that killed processes left there are removed. */
int eval_scratch(struct file_new *f, char *path, size_t size, struct err *err);

/* Refuse a loss that is no number: finite parameters may still be too large to compute with. */
int eval_finite(double loss, const char *model, struct err *err);

/* Evaluate a language model on files of conversations or preferences. */
int eval_chat(const struct model_folder *r, struct opt_line *line, struct err *err);
