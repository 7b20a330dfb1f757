/* model_folder.h: RUN or HFDIR, whichever a command was given, as a source of parameters. */
#pragma once

#include "data/text/tokenizer.h"
#include "model/finite.h"
#include "model/hf.h"
#include "plan/memory.h"
#include "run/folder/session.h"
#include "run/sources/evaluate.h"

/* The model of a run that is read. LAST and BEST (RUN/best) are asked for by --last and --best.
 * KEPT, the default, is the best model if the run kept one, and otherwise the last model. */
enum model_which { MODEL_KEPT, MODEL_LAST, MODEL_BEST };

struct model_folder {
    struct model_config    config;
    struct params_source source;                       // refuses values that are not finite
    struct finite        finite;                       // behind it
    char                 tokenizer[SESSION_PATH + 16]; // a folder; "" if there is none
    uint64_t             bytes;                        // that the source itself holds
    const struct events *events;
    struct session       run; // open, or of a folder: what follows from its config alone
    // one of them
    struct hf           *hf;
    struct hf           *best;    // a run's: all but the parameters is the run's own
    struct run_reader   *masters;
    uint64_t             step;    // of a run: steps that made these parameters
};

/* A run is first brought to its last commit where a crash left a step half done and the last model
 * is read. A notice says that the best one is read, or that --keep-best found none. `which` is of a
 * run, disk NULL for the run's own. Closed by model_folder_close also after a failure. */
int  model_folder_open(struct model_folder *r, const char *path, enum model_which which,
                       const char *disk, const struct events *events, struct err *err);
void model_folder_close(struct model_folder *r);
/* Which one of `path` --best and --last say, where they may. */
int  model_which(enum model_which *out, const struct which_opts *o, const char *path,
                 struct err *err);

/* The dtype to read with where none was asked for: a run's own; bf16 for a folder. */
int model_folder_dtype(const struct model_folder *r);

/* Refuse a tokenizer in `dir` that differs from the model's own, where it has one; NULL: none is
 * given. */
int model_folder_given(const struct model_folder *r, const char *dir, struct err *err);

/* The tokenizer in `dir`, or if NULL the model's own. */
int model_folder_tokenizer(struct tokenizer **out, const struct model_folder *r, const char *dir,
                           struct err *err);

/* What the model pads with, as it came: transformers reads a row's last position that is something
 * else for a classifier's. Where config.json says nothing, a classifier's is the tokenizer's (NULL:
 * there is none), a language model's -1. path: what r was opened with. */
long model_folder_pad(const struct model_folder *r, const char *path, const struct tokenizer *tok);

/* What the folder that the model is, or came from, says of texts that are generated (hf.h), the
 * caller's; NULL: there was none. */
int model_folder_generation(json_t **out, const struct model_folder *r, const char *path,
                            struct err *err);

/* Open the model to be evaluated, as o says (its disk is not looked at; seq 0: all positions; dtype
 * -1: the model's own), with the memory planned. rows: of labelled examples that will
 * be predicted at once, at most. Closed by evaluator_close also after a failure; r and its source
 * stay open as long. */
int  model_folder_evaluator(struct evaluator *out, const struct model_folder *r,
                            const struct read_opts *o, uint64_t rows, struct err *err);
void evaluator_close(struct evaluator *e); // accepts the zero state

/* The classes of a model that has a head, and the rows of the head in an order that is wanted:
 * another model's, which calls its classes by the same names. */
struct classes {
    struct hf_labels         names; // of the model's own classes, in its order
    size_t                  *place; // (n_labels): the row of the head that is class i
    const struct model_config *config;   // the model's
    struct params_source     body;
};

/* In the model's own order until classes_match. path: what r was opened with; r stays open as long
 * as c. Closed by classes_close also after a failure. */
int  classes_open(struct classes *c, const struct model_folder *r, const char *path,
                  struct err *err);
void classes_close(struct classes *c); // accepts the zero state

/* Does the model name its classes, or are they LABEL_0, LABEL_1...? */
int classes_named(const struct classes *c);

/* Take them in the order of `names`, one for each: 1 if the model has all of these names (case does
 * not matter), else 0 and they stay in its own order. */
int classes_match(struct classes *c, const char *const *names, size_t n);

/* The model's parameters with the head's rows in that order. Borrows c. */
struct params_source classes_source(const struct classes *c);
