/* newrun.h: makes a run's folder: nothing has its final name, run.db, until everything is complete.
 */
#ifndef CMD_RUN_NEWRUN_H
#define CMD_RUN_NEWRUN_H

#include "cmd/run/encode.h"
#include "cmd/run/recipe.h"
#include "cmd/run/session.h"

enum { NEWRUN_NOTICES = 3 };

struct newrun {
    const char       *dir;
    struct gpt_config gpt;
    const struct train_opts *o; // checked; seq, threads, schedule_steps resolved where they are
                                // known
    const struct hf_labels *labels;   // a classifier's, or NULL
    const char *init; // a Hugging Face folder; NULL: source, or gpt_init_values of o->seed
    // of a model of source_labels classes (0: a language model), like gpt but for the head
    const struct params_source *source;
    size_t            source_labels;
    const char *notice[NEWRUN_NOTICES];  // said, and kept in run.db, as the run is made; NULL, "":
                                         // none
    const char       *tokenizer;      // a folder, or NULL
    const char       *data, *eval_data; // token files or texts; NULL: none
    const struct encode *examples;    // (n_examples), checked: fine-tuning; rows are cut at o->seq
    size_t            n_examples;
    uint64_t          epochs;
    struct run_records records;       // to have room for on the devices
    struct recipe     recipe;         // the same as options
    int               argc;
    char            **argv;
    const struct events *events;
};

/* Refusals that need no folder: data that is neither tokens nor text, text without a tokenizer, ids
 * that the vocabulary does not have, files too short for a row; a folder that exists; --keep-best
 * with nothing to evaluate on. Nothing on disk is changed. */
int newrun_check(const struct newrun *n, struct err *err);

/* Make it. A head that the parameters' source does not have, or has for another number of classes,
 * is new: gpt_init_values of o->seed.
 * On failure what was made is removed again; a kill leaves a folder without run.db, which the next
 * newrun_create of the same name starts over. */
int newrun_create(const struct newrun *n, struct err *err);

#endif
