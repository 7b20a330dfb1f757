/* output.h: protects the files and folders at paths that a user gives for output. Every command
 * calls output_check for each output before any work.
 *
 * A path is refused if it is, or would become, an input of the command, a part of a run
 * (run_files.h), or a part of a model's folder. An existing file is replaced only by the same kind
 * of file: its beginning must be one that siTrain writes. An empty file may be replaced. */
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
    OUTPUT_GGUF,        // export to a name that ends in .gguf
    OUTPUT_TOKENIZER,   // prepare --train-tokenizer; a folder
    OUTPUT_MODEL,       // export; a folder
    OUTPUT_RENDERINGS,  // prepare --render: only creates new files
    OUTPUT_EVENTS,      // --tensorboard: only creates new files
    OUTPUT_NAME,        // only for output_check_name
    OUTPUT_SNAPSHOTS,   // --snapshot-dir: only creates new folders
};

struct output {
    const char              *path;
    enum output_kind         kind;
    const char *const       *inputs; // (n_inputs) files and folders that the command reads,
    size_t                   n_inputs; // and its other outputs; NULLs are skipped
};

/* 0 or misuse. Call it again after file_new_open; from then on no other file can be replaced. */
int output_check(const struct output *o, struct err *err);

/* Write n bytes to o->path, after another output_check. A predictions file begins as run_glue.py's
 * does, so it gets an attribute (user.sitrain) that marks it as siTrain's. If the file system has
 * no attributes, it is never replaced. */
int output_put(const struct output *o, const void *bytes, size_t n, struct err *err);

/* True if a file of a model's folder can have this name. */
int output_is_model(const char *name);

/* Check whether --tensorboard may create files in `dir`, which may not exist yet. A part of a run
 * is refused, except its tensorboard/. */
int output_check_events(const char *dir, struct err *err);

/* Check whether `option` may create a device at path, or, with NULL, whether a run may be created
 * there. Returns misuse if the path, or where it leads, is in another run's folder, and that run
 * has or may get such a name. 0 if the parent folder is missing; others report that. */
int output_check_name(const char *option, const char *path, struct err *err);

/* Check an existing --snapshot-dir in the same way, except that the folder `snapshots` of any run
 * is allowed. */
int output_check_snapshots(const char *dir, struct err *err);

/* Returns misuse if a folder's name has the extension of a file format. it: the beginning of the
 * reason, such as "an export is a folder". */
int output_check_folder_name(const char *dir, const char *it, struct err *err);

/* Write a tokenizer into a new folder and rename it to o->path in one step. It replaces nothing, an
 * empty folder, or a folder that output_check accepts. The access modes stay. */
struct tokenizer;
int output_tokenizer(const struct output *o, const struct tokenizer *tok, struct err *err);
