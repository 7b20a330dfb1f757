/* chat_opts.h: the options of a language model that is fine-tuned on conversations (finetune --task
 * chat), shared by finetune and plan. */
#pragma once

#include "chat/encode.h"
#include "data/opt/opt.h"
#include "run/folder/train_opts.h"
#include "run/folder/tune_opts.h"

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

/* The first of these options that was given on the line; NULL: none was. */
const char *chat_opts_given(const struct opt_line *line);

/* Check options that depend on each other. Returns misuse if one has no meaning for conversations,
 * or contradicts another. */
int chat_opts_check(const struct chat_opts *o, const struct tune_opts *t,
                    const struct task_names *columns, const struct train_opts *train,
                    struct err *err);

/* The keys of rows, of both kinds of column options. */
struct chat_names chat_opts_names(const struct chat_opts *o, const struct task_names *columns);

/* tune_seq for conversations, of usually 1,024 tokens. Misuse: a model that cannot be trained on
 * them. */
int chat_opts_seq(uint64_t *seq, uint64_t asked, const struct model_config *g,
                  const char *tokenizer, struct err *err);
enum { CHAT_BATCH = 8 }; // default of --batch
