/* model_opts.h: derives a model's configuration from the options of pretrain, plan and bench. It
 * fills in every size that no option gives. */
#pragma once

#include "model/arch/arch.h"
#include "run/folder/train_opts.h"

/* Which model pretrain and plan use: init; or model, with some sizes overridden; or sizes alone. */
struct model_opts {
    const char *init;  // a Hugging Face folder, or an adapter folder; NULL: none
    const char *base;  // the folder of an adapter's model; NULL: as the adapter says
    const char *model; // gpt2, gpt2-medium, ...; NULL: none
    uint64_t n_layer, n_head, n_embd, vocab; // 0: not given (vocab: from the data or the tokenizer)
    uint64_t n_kv_head, head_dim, n_inner;   // 0: not given
};

extern const struct opt_row model_rows[];

/* True if any size option except --vocab is given. --vocab is compatible with every way to choose a
 * model. */
int model_has_sizes(const struct model_opts *o);
/* Misuse: --init is a run, which pretrain does not begin with. */
int model_folder_only(const struct model_opts *o, struct err *err);
/* Finds the folder of the model in --init: itself, or the base of the adapter folder that it is.
 * *adapter: the adapter folder, or NULL. dir has HF_PATH_BYTES; "": there is no --init. */
int model_init(char *dir, const char **adapter, const struct model_opts *o, struct err *err);
/* Fill *config, o->seq and o->threads. --init may be a run, or an adapter folder, whose adapters
 * *config then has. If *tokenizer is NULL and --init has a
 * tokenizer, *tokenizer becomes a malloced path of it. Returns misuse if options contradict each
 * other. Nothing is created on disk. */
int model_choose(struct model_config *config, const char **tokenizer, const struct model_opts *m,
               struct train_opts *o, struct err *err);
