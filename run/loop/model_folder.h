/* model_folder.h: the model of a run or of a Hugging Face folder, as a source of parameters. A
 * command accepts either path. */
#pragma once

#include "data/text/tokenizer.h"
#include "model/file/finite.h"
#include "model/lora/adapted.h"
#include "model/file/hf.h"
#include "model/lora/packed.h"
#include "model/file/peft.h"
#include "plan/memory.h"
#include "run/folder/read_opts.h"
#include "run/folder/session.h"
#include "run/loop/live.h"
#include "run/sources/evaluate.h"

/* The model of a run to read. --last and --best ask for LAST and BEST (RUN/best). KEPT, the
 * default, is the best model if the run kept one; otherwise it is the last model. */
enum model_which { MODEL_KEPT, MODEL_LAST, MODEL_BEST };

struct model_folder {
    struct model_config    config;
    struct params_source source;                       // fails on values that are not finite
    struct finite        finite, whole;                // its state; that of merged
    char                 tokenizer[SESSION_PATH + 16]; // a folder; "" if there is none
    uint64_t             bytes;                        // memory that the source uses
    const struct events *events;
    struct session       run; // an open run; for a folder, only derived from its config
    // after success exactly one of hf, best and masters is set
    struct hf           *hf;
    struct hf           *best;    // RUN/best, or live's; only its parameters are used
    struct peft         *adapter; // of an adapter folder: the path, or live's
    struct peft         *kept;    // RUN/best, if that is an adapter
    struct merged       *merged;  // of model_folder_merge
    char                 base[HF_PATH_BYTES]; // with hf: the folder of config.json; "" for a run
    struct live_model    live;    // of a run that another process trains
    struct run_reader   *masters;
    struct packed       *unpacked; // of masters, whose base is packed
    int                  in_training; // of a run: another process trains it
    int                  adapters_alone; // model_folder_open_adapters opened it
    uint64_t             step;    // of a run: steps that trained these parameters
};

/* Open the model at `path`: a run, a Hugging Face folder, or an adapter folder, whose model is in
 * the folder `base`, or, if it is NULL, where the adapter says. Of a run, `base` is where its base
 * in place is. If the last model is read and a
 * crash interrupted a step, the step is completed first. If another process trains the run, that
 * process writes the model for this one after its step (live.h). A notice says which model is
 * read, unless it is the usual one. `which` and disk are for a run; disk NULL: the run's own. Must
 * be closed by model_folder_close, also after a failure. */
int  model_folder_open(struct model_folder *r, const char *path, const char *base,
                       enum model_which which, const char *disk, const struct events *events,
                       struct err *err);
/* model_folder_open for a caller that reads the blocks of adapters alone. A base in place need not
 * be there any more: adapters may be saved from a run that lost it. */
int  model_folder_open_adapters(struct model_folder *r, const char *path, const char *base,
                                enum model_which which, const struct events *events,
                                struct err *err);
void model_folder_close(struct model_folder *r);
/* Open the last model, to begin a training with it. The adapters of a run are merged into its
 * model, with a notice; those of a folder are not, and r->adapter is set. */
int  model_folder_begin(struct model_folder *r, const char *path, const char *base,
                        const struct events *events, struct err *err);
/* Merge adapters, if the model has any, into config and source. The evaluator still has them
 * apart. */
int  model_folder_merge(struct model_folder *r, struct err *err);
/* The names of a classifier's classes (hf.h). The caller frees *out. */
int  model_folder_labels(struct hf_labels *out, const struct model_folder *r, const char *path,
                         struct err *err);
/* Convert --best, --last and --step. With --step, *path, an option's value, becomes that of the
 * run's snapshot, and the default is the model after that step. Returns misuse if both --best and
 * --last are set, or if *path is a folder with one model. */
int  model_which(enum model_which *out, const char **path, const struct which_opts *o,
                 const struct opt_line *line, struct err *err);

/* The default dtype: the run's own; bf16 for a folder. */
int model_folder_dtype(const struct model_folder *r);

/* Compare the tokenizer in `dir` with the model's own, if there are both. Returns misuse if they
 * differ. dir may be NULL. */
int model_folder_given(const struct model_folder *r, const char *dir, struct err *err);

/* Open the tokenizer in `dir`; NULL: the model's own. The caller closes *out. Returns misuse if
 * there is none, -EBADMSG if the run's tokenizer was replaced. */
int model_folder_tokenizer(struct tokenizer **out, const struct model_folder *r, const char *dir,
                           struct err *err);

/* The model's padding id; -1: none. For a classifier, transformers reads the logits at a row's last
 * token that is not padding. If config.json has no pad_token_id, a classifier takes the tokenizer's
 * (tok may be NULL). */
int  model_folder_pad(long *pad, const struct model_folder *r, const struct tokenizer *tok,
                      struct err *err);

/* The generation_config.json of the folder that the model is, or came from (hf.h). The caller owns
 * *out; NULL: there was none. */
int model_folder_generation(json_t **out, const struct model_folder *r, struct err *err);

/* Rows that a model is evaluated on. n: of labelled ones, how many are predicted at once; of
 * conversations, how many there are. pairs: of SESSION_PAIRS. */
struct evaluated { uint64_t n; enum session_rows kind; struct pairs_options pairs; };

/* Open the model for evaluation, and plan the memory. o: disk is ignored; seq 0: all positions;
 * dtype -1: the model's own. rows NULL: those of a token file. r must stay open as long as
 * *out. Must be closed by evaluator_close, also after a failure. */
int  model_folder_evaluator(struct evaluator *out, const struct model_folder *r,
                            const struct read_opts *o, const struct evaluated *rows,
                            struct err *err);
void evaluator_close(struct evaluator *e); // accepts the zero state

/* The classes of a classifier. It can present the rows of the head in the class order of another
 * model with equal class names. */
struct classes {
    struct hf_labels         names; // of the classes, in the model's order
    size_t                  *place; // (n_labels): row of the head for class i
    const struct model_config *config;   // the model's
    struct params_source     body;
};

/* Open the classes in the model's own order. path: as passed to model_folder_open. r must stay open
 * as long as c. Must be closed by classes_close, also after a failure. */
int  classes_open(struct classes *c, const struct model_folder *r, const char *path,
                  struct err *err);
void classes_close(struct classes *c); // accepts the zero state

/* True if the model has class names other than LABEL_0, LABEL_1... */
int classes_named(const struct classes *c);

/* Reorder the classes by `names`, n of them. 1 if the model has exactly these names, ignoring case.
 * Otherwise 0, and the order stays the model's own. */
int classes_match(struct classes *c, const char *const *names, size_t n);

/* The model's parameters, with the rows of the head in c's order. Borrows c. */
struct params_source classes_source(const struct classes *c);
