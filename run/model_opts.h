/* model_opts.h: derives a model's configuration from the options of pretrain and plan. It fills
 * in every size that no option gives. */
#pragma once

#include "model/arch.h"
#include "run/folder/train_opts.h"

/* True if any size option except --vocab is given. --vocab is compatible with every way to choose a
 * model. */
int model_has_sizes(const struct model_opts *o);
/* Fill *config, o->seq and o->threads. If *tokenizer is NULL and the --init folder has a tokenizer,
 * *tokenizer becomes a malloced copy of --init. Returns misuse if options contradict each other.
 * Nothing is created on disk. */
int model_choose(struct model_config *config, const char **tokenizer, const struct model_opts *m,
               struct train_opts *o, struct err *err);
