/* lora_opts.h: the options of adapters (LoRA), shared by pretrain, finetune and plan. A run keeps
 * them with its other training options. */
#pragma once

#include "data/opt/opt.h"
#include "model/lora/lora.h"
#include "model/lora/packed.h"

struct lora_opts {
    uint64_t    rank;    // 0: no adapters
    double      alpha;   // 0: twice the rank
    double      dropout;
    const char *targets; // names for lora_targets_named; NULL: PEFT's choice
    int         rs;
    int         base; // enum quant: --base-dtype
    int         in_place; // --base-in-place
};

extern const struct opt_row lora_rows[];
int lora_opts_has(const char *name); // true if an option is one of these

/* The option row of commands that take an adapter folder. */
#define OPT_BASE_ROW(at, how)                                                                      \
    { "base", OPT_PATH, at, .arg = "HFDIR", .file = OPT_FILES_MODEL,                               \
      .help = "Folder of the model that an adapter belongs to (default: the folder that its "      \
              "adapter_config.json names), or of the base that a run reads in place "              \
              "(default: where it was)", .kept = how }

/* Give a model the adapters of a run's options. Misuse: a target that the family lacks. */
int lora_opts_set(struct model_config *g, const struct lora_opts *o, struct err *err);

/* Give g, the configuration of a new run, its adapters, and store on the line what they are, as if
 * it had been given. from: the adapter folder whose adapters g has already; NULL: those of the
 * options *o. Misuse: an option that was given differs from the folder. Only the dropout may
 * differ. Without a folder: an option without --lora-rank, or a matrix smaller than the rank. A
 * folder's rank may be larger than a matrix. */
int lora_opts_begin(struct model_config *g, struct opt_line *line, const struct lora_opts *o,
                    const char *from, struct err *err);
