/* pairs_opts.h: the options of a language model that learns from preferences (finetune --task dpo),
 * and how a run keeps them. Its rows are conversations (chat_opts.h), two for each preference. */
#pragma once

#include "data/db/runlog.h"
#include "data/opt/opt.h"
#include "model/layer/pairs.h"
#include "run/folder/chat_opts.h"

struct pairs_opts {
    int         loss; // enum pairs_loss
    double      beta;           // the smoothing is train_opts.label_smoothing
    const char *chosen, *rejected; // keys; NULL: chosen and rejected
};

extern const struct opt_row pairs_opt_rows[];

/* The first of these options that was given on the line; NULL: none was. */
const char *pairs_opts_given(const struct opt_line *line);

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
