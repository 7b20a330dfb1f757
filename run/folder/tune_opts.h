/* tune_opts.h: the options of a fine-tuning: its task, the files of its rows, and their columns; of
 * a language model that learns from conversations, or from preferences, how rows become tokens and
 * what counts. The commands finetune, eval and plan share them. */
#pragma once

#include "chat/encode.h"
#include "data/db/runlog.h"
#include "data/opt/opt.h"
#include "data/task/task.h"
#include "model/layer/pairs.h"
#include "run/folder/train_opts.h"

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

/* ---- conversations (finetune --task chat) ---- */

/* --long-rows: what happens to a row of more than --max-seq tokens. */
enum chat_long { CHAT_LONG_CUT, CHAT_LONG_DROP, CHAT_LONG_REFUSE };

struct chat_opts {
    int         rows;               // enum chat_form
    const char *template;           // a name, or a file; NULL: the folder's own choice
    int         loss_on;            // enum chat_loss
    int         special_in_text;
    const char *date;               // of strftime_now; NULL: today
    int         packing, by_length; // by_length: --group-by-length
    int         long_rows;          // enum chat_long
    const char *messages, *prompt, *completion; // keys; NULL: the form's own
};

extern const struct opt_row chat_opt_rows[];

/* Check options that depend on each other. Returns misuse if one has no meaning for conversations,
 * or contradicts another. */
int chat_opts_check(const struct chat_opts *o, const struct tune_opts *t,
                    const struct task_names *columns, const struct train_opts *train,
                    struct err *err);

/* tune_seq for conversations, of usually 1,024 tokens. Misuse: a model that cannot be trained on
 * them. */
int chat_opts_seq(uint64_t *seq, uint64_t asked, const struct model_config *g,
                  const char *tokenizer, struct err *err);
enum { CHAT_BATCH = 8 }; // default of --batch

/* ---- preferences (finetune --task dpo) ---- */

struct pairs_opts {
    int         loss; // enum pairs_loss
    double      beta;           // the smoothing is train_opts.label_smoothing
    const char *chosen, *rejected; // keys; NULL: chosen and rejected
};

extern const struct opt_row pairs_opt_rows[];

/* Check the options, and those of conversations and of training that depend on them. */
int pairs_opts_check(const struct pairs_opts *o, const struct chat_opts *chat,
                     const struct train_opts *train, struct err *err);

/* The keys of rows, of all three kinds of column options. o NULL: there are no preferences. */
struct chat_names pairs_opts_names(const struct pairs_opts *o, const struct chat_opts *chat,
                                   const struct task_names *columns);

struct pairs_options pairs_opts_of(const struct pairs_opts *o, const struct train_opts *train);

/* Store them with a run, and load them. *out is unchanged, and 0 is returned, if a run has none. */
int pairs_opts_store(struct runlog *log, const struct pairs_options *o, struct err *err);
int pairs_opts_load(struct pairs_options *out, struct runlog *log);

#define PAIRS_LR "1e-6" // default of --lr, which is TRL's
