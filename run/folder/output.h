/* output.h: files and folders that a command writes where a person said: what may be replaced
 * there. Every output of every command goes through output_check, before any work is done.
 *
 * A file is refused where it is or would become an input of the command, a part of a run
 * (run_files.h), or a part of a model's folder. A file that is there is replaced only by its own
 * kind: by its beginning it must be what siTrain writes. An empty file may be replaced. */
#pragma once

#include "data/base/err.h"

enum output_kind {
    OUTPUT_PAGE,        // report --html
    OUTPUT_TIMELINE,    // report --trace
    OUTPUT_TOKENS,      // prepare
    OUTPUT_PREDICTIONS, // eval --predict
    OUTPUT_PLAN,        // plan --json
    OUTPUT_FIGURES,     // bench --json
    OUTPUT_MACHINE,     // bench --save
    OUTPUT_TOKENIZER,   // prepare --train-tokenizer; a folder
    OUTPUT_MODEL,       // export; a folder
    OUTPUT_EVENTS,      // --tensorboard: new files, of which none is replaced
    OUTPUT_NAME,        // output_check_name
};

struct output {
    const char              *path;
    enum output_kind         kind;
    const char *const       *inputs; // (n_inputs) files and folders that the command reads, and its
    size_t                   n_inputs; // other outputs; NULLs among them are passed over
};

/* 0 or misuse. Again behind file_new_open, from where on nothing else is replaced. */
int output_check(const struct output *o, struct err *err);

/* Write these bytes to o->path, where output_check says still that they may be. Predictions, whose
 * beginning is run_glue.py's too, get an attribute (user.sitrain), by which they are known as ours;
 * where the file system has none, they are not replaced later. */
int output_put(const struct output *o, const void *bytes, size_t n, struct err *err);

/* Is this a name of a file of a model's folder? */
int output_is_model(const char *name);

/* May new files be made in the folder `dir`, which need not be there yet (--tensorboard)? Not in a
 * part of a run, but for its tensorboard/. */
int output_check_events(const char *dir, struct err *err);

/* May `option` make a device of this name, or with NULL may a run be made? Not in another run's
 * folder where that has, or may get, such a name. 0 also where there is no folder for it, which
 * others say. */
int output_check_name(const char *option, const char *path, struct err *err);

/* Refuse for a folder a name that other programs give to one file; it: "an export is a folder". */
int output_check_folder_name(const char *dir, const char *it, struct err *err);

/* Write a tokenizer's files into a new folder and put it into the place of o->path in one step: of
 * none, of an empty folder, or of one that output_check takes. Modes stay. */
struct tokenizer;
int output_tokenizer(const struct output *o, const struct tokenizer *tok, struct err *err);
