/* run_files.h: the table of all file and folder names in a run's folder. Code that creates, copies,
 * checks or removes a run's files uses it. */
#pragma once

#include "data/task/task.h"

#define RUN_DB     "run.db"
#define RUN_DB_NEW "run.db.new" // until the run is complete
#define RUN_LOCK   "run.lock"
#define RUN_PART   "run"        // RUN/run.new-HEX becomes this run

enum run_file_kind {
    RUN_FILE_OTHER,
    RUN_FILE_TOKENIZER, // a tokenizer's folder
    RUN_FILE_TOKENS,
    RUN_FILE_ROWS,      // labelled examples
    RUN_FILE_REFERENCE, // log-probabilities of rows (reference.h)
    RUN_FILE_RESULT,    // written at the end of a fine-tuning
};

enum {
    RUN_FILE_FOLDER = 1 << 0,
    RUN_FILE_FIRST  = 1 << 1, // created with the run; otherwise by training
    RUN_FILE_COPIED = 1 << 2, // `reshard --ranks --new-run` copies it to each folder
};

struct run_file {
    const char        *pattern; // '*': any characters, '#': a number
    const char        *what;    // such as "its journal", for messages
    enum run_file_kind kind;
    unsigned           flags;
    const char        *set;     // for tokens or rows: the set that it is of; otherwise NULL. Its
                                // name in run.db is the file's without the ending
};

/* The row that matches the name of a file in RUN. NULL: no run has such a file. */
const struct run_file *run_file_find(const char *name);

/* run_file_find in upper or lower case: where a file system folds case, DATA.BIN is data.bin. */
const struct run_file *run_file_reserves(const char *name);

/* Row i; NULL past the last. */
const struct run_file *run_file_at(size_t i);

/* The sets of rows that a fine-tuning evaluates and predicts, one per split of the task. */
extern const char *const run_dev[TASK_SPLITS], *const run_test[TASK_SPLITS];
#define RUN_TRAIN "train"

/* Remove a folder and the files in it that the maker of a run creates. If it holds anything else,
 * nothing is removed: misuse and a sentence. */
int run_files_remove(const char *dir, struct err *err);
/* run_files_remove, except for the tokens of texts, complete or unfinished. If there are some, they
 * and the folder stay; with `db` the unfinished database (RUN_DB_NEW), too. Returns 1 then; 0 if
 * all is removed; or -errno. */
int run_files_but_tokens(const char *dir, int db, struct err *err);
/* Whether this is the name of tokens that a run makes of texts. */
int run_file_is_tokens(const char *name);
/* Remove what killed processes of this run left: each maker's folder RUN/run.new-HEX, and files
 * under way that were to become a run's, with `tokens` also unfinished tokens of its texts. Those
 * of a user's output, such as a token file, stay for the command that makes it. */
void run_files_clean(const char *run, int tokens);
