/* recipe.h: what a new run is made from. newrun.h creates it. */
#pragma once

#include "run/folder/session.h"
#include "run/sources/chat_files.h"
#include "run/sources/corpus.h"
#include "run/sources/task_files.h"

struct newrun {
    const char              *dir;
    struct model_config        config;
    const struct train_opts *o; // checked; seq 0: all positions; schedule_steps 0: steps
    const char              *tokenizer;        // a folder, or NULL
    const struct corpus_opts *corpus;          // token files or texts; NULL: none
    const struct events     *events;           // callbacks; may be NULL
    struct comm             *comm;             // all ranks create it together, each its folder;
                                               // NULL: a single process

    // initial parameters; if both are NULL, arch_init_values with o->seed
    const char                 *init;   // a Hugging Face folder
    const struct params_source *source; // of a model that differs from config only in its head,
    size_t                      source_labels; // which has so many classes; 0: a language model
    const struct hf            *source_hf; // the folder that source reads; NULL: a run
    int                         adapted; // the source has config's adapters; 0: new ones are made
    const char                 *adapter; // the folder of the adapters, on init; NULL: new ones
    const char                 *base;    // the folder of a model whose adapters are trained; NULL:
                                         // it is in none
    long                        pad;    // the source's pad_token_id; -1: none

    // fine-tuning
    const struct chat_files *chat;      // conversations, checked; NULL: labelled rows
    const json_t           *generation; // generation_config.json of a source without init; NULL:
                                        // none
    const struct hf_labels *labels;     // class names of a classifier, or NULL
    const struct task_file *examples; // (n_examples), checked; rows are truncated at o->seq
    size_t                  n_examples;
    uint64_t                epochs;
    const char             *notice;     // sent and stored in run.db; NULL or "": none

    // Command line, stored to reproduce the run (`report --config`); NULL: not stored. Training
    // options are stored as option.NAME. Options that name the run's inputs are stored as
    // given.NAME if they were given, with absolute paths.
    const struct opt_line *line;
};
