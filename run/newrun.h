/* newrun.h: makes a run: its folder, complete, or nothing. */
#pragma once

#include "run/folder/session.h"
#include "run/sources/labelled.h"

struct newrun {
    const char              *dir;
    struct model_config        config;
    const struct train_opts *o; // checked; seq 0: all positions, schedule_steps 0: steps
    const char              *tokenizer;        // a folder, or NULL
    const char              *data, *eval_data; // token files or texts; NULL: none
    enum tokens_format       data_format;      // of both
    const struct events     *events;           // told while it is made; NULL: nobody is
    struct comm             *comm;             // all ranks make it together, each its own folder;
                                               // NULL: alone

    // parameters to begin with; where neither is given arch_init_values of o->seed
    const char                 *init;   // a Hugging Face folder
    const struct params_source *source; // of a model like config but for its head, which has
    size_t                      source_labels; // so many classes; 0: a language model
    long                        pad;    // its pad_token_id; -1: it has none

    // fine-tuning
    const struct hf_labels *labels;     // a classifier's, or NULL
    const struct labelled_file *examples; // (n_examples), checked; rows are cut at o->seq
    size_t                  n_examples;
    uint64_t                epochs;
    const char             *notice;     // told, and kept in run.db; NULL, "": none

    // what makes the run again (`report --config`), NULL: nobody asks for it again. Options of
    // training are kept as option.NAME, as they are now; of the others, which say what it was made
    // from, those that were given are kept as given.NAME, paths in full
    const struct opt_line *line;
};

/* Make it. Everything that can be refused is refused before anything is made: a folder that exists,
 * data that does not fit (corpus.h), --keep-best with nothing to evaluate on, a memory plan that
 * does not fit where there is something to train on. A head that the parameters to begin with do
 * not have, or have for another number of classes, is new. On failure what was made is removed
 * again; a kill leaves a folder without run.db, which the next run of that name starts over. */
int newrun_create(const struct newrun *n, struct err *err);
