/* run_files.h: the names that files and folders have in a run's folder: the one list of what is a
 * run's own there. Whoever makes, copies, checks or removes a run's files goes by its rows. */
#pragma once

#include "data/task/task.h"

#define RUN_DB     "run.db"
#define RUN_DB_NEW "run.db.new" // until the run is complete
#define RUN_LOCK   "run.lock"
#define RUN_PART   "run"        // RUN/run.new-HEX becomes this run

enum run_file_kind {
    RUN_FILE_OTHER,
    RUN_FILE_TOKENIZER, // of the model
    RUN_FILE_TOKENS,
    RUN_FILE_ROWS,      // labelled examples
    RUN_FILE_RESULT,    // written at the end of a fine-tuning
};

enum {
    RUN_FILE_FOLDER = 1 << 0,
    RUN_FILE_FIRST  = 1 << 1, // the maker of a run makes it; else training does
    RUN_FILE_COPIED = 1 << 2, // each folder of `reshard --ranks --new-run` gets a copy
};

struct run_file {
    const char        *pattern; // '*': any characters, '#': a number
    const char        *what;    // "the journal", for a sentence
    enum run_file_kind kind;
    unsigned           flags;
    const char        *set;     // of tokens or rows: its name in run.db; else NULL
};

/* The row of a name in RUN that a run has, or may get later; NULL: no run has it. */
const struct run_file *run_file_find(const char *name);

/* Row i; NULL past the last. */
const struct run_file *run_file_at(size_t i);

/* The sets of rows that a fine-tuning evaluates and predicts, by the task's splits. */
extern const char *const run_dev[TASK_SPLITS], *const run_test[TASK_SPLITS];
#define RUN_TRAIN "train"

/* Removes what the maker of a run made in its folder, and the folder if nothing else is there.
 * -ENOTEMPTY and a sentence: something else is. */
int run_files_remove(const char *dir, struct err *err);
/* So with each maker's folder in a run, RUN/run.new-HEX, which no process holds any more. */
void run_files_clean(const char *run);
