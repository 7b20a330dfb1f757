/* tune_opts.h: the options of a fine-tuning: its task, the files of its rows, and their columns.
 * The commands finetune and plan share them. */
#pragma once

#include "data/opt/opt.h"
#include "data/task/task.h"

enum { TUNE_MOST_FILES = 1024 };

/* The task of a fine-tuning, for finetune and plan. */
struct tune_opts {
    const char *task;                               // a GLUE task; or
    struct opt_strings train_file, eval_file;       // the user's own rows
    const char *test_file;
    int         regression, predict;
    uint64_t    epochs, max_seq;                    // max_seq 0: see tune_seq
    const char *mix;                                // weights of the train_file; NULL: one pool
    uint64_t    max_train, max_eval, max_predict;   // rows; 0: all
    double      split;                              // part of the rows to evaluate on; 0: none
};

#define TUNE_CHAT "chat" // the task of a language model that learns from conversations
#define TUNE_DPO  "dpo"  // the task of one that learns from preferences

/* The names of tune_opts.task: GLUE's tasks, TUNE_CHAT and TUNE_DPO. */
const char *tune_task_word(size_t i);
/* True if the rows are conversations: those of TUNE_CHAT, and the two answers of a preference. */
int tune_chats(const struct tune_opts *t);
int tune_pairs(const struct tune_opts *t); // true if they are preferences

/* Choose the tokens per row. asked > 0: that number; misuse if the model has fewer positions. asked
 * 0: `usual`, or less if the model has fewer positions or the tokenizer cuts earlier. tokenizer: a
 * folder; NULL or "": none. */
int tune_seq(uint64_t *seq, uint64_t asked, size_t usual, size_t positions, const char *tokenizer,
             struct err *err);
enum { TUNE_SEQ = 128 }; // usual for labelled rows

extern const struct opt_row tune_rows[];   // of struct tune_opts
extern const struct opt_row column_rows[]; // of struct task_names

/* Check the column options. own: the rows are the user's own; without them no column may be given.
 * Returns misuse if one column is used twice, or pair is given without text. */
int columns_check(const struct task_names *n, int own, struct err *err);
