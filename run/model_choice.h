/* model_choice.h: which model and which sizes the options mean, for pretrain and plan: everything
 * that is not given is filled in. */
#pragma once

#include "model/arch.h"
#include "run/folder/train_opts.h"

/* Whether any size is given but --vocab, which goes with all of them. */
int model_has_sizes(const struct model_opts *o);
/* Fill *config; in *o seq and threads; *tokenizer becomes a copy of --init where none was given and
 * that folder has one. Refuses what does not go together, before anything is made. */
int model_choose(struct model_config *config, const char **tokenizer, const struct model_opts *m,
               struct train_opts *o, struct err *err);
