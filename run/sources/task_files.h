/* task_files.h: labelled texts for fine-tuning. When a run is created, the files are checked and
 * converted once into files of examples (data/task/examples.h). The run stores the task's name and
 * the files' names and checksums.
 *
 * A pair is encoded by the tokenizer's template; without one, as A, the end-of-text token, B. A row
 * longer than max_seq is truncated; with a template, as transformers truncates it. */
#pragma once

#include "data/task/examples.h"
#include "data/task/task.h"
#include "data/text/tokenizer.h"
#include "model/file/hf.h"
#include "run/folder/session.h"
#include "run/texts/text_list.h"

struct task_file {
    const char *name; // train, dev, dev_mm, test, test_mm: RUN/NAME.ex; NAME.sum, NAME.rows in
                      // run.db
    const struct task *task;
    const struct text_list *own; // the user's own files; NULL: the task's TSV
    struct task_names  asked;   // columns of the first one, borrowed; all NULL: found by their
                                // names. The other files have the columns that the first one has.
    const char        *mix;     // weights of the sources of own training rows; NULL: one pool
    int                labels;  // every row must have a label; 0: labels are ignored
    uint64_t           most;    // rows to read; 0: all
    double             split;   // part of the rows that is evaluated on, by a hash of their texts:
    int                held;    // 1: the file is this part, 0: what it leaves. split 0: all rows
    uint64_t           most_held; // rows of that part; 0: all
    const struct events *events;
    // set by task_file_check
    char               path[4096]; // the file, or what several are called in sentences
    uint64_t           rows;
    int                pairs;   // at least one row is a pair
    struct task_names  read;    // the columns of the user's own files
    int                words[2]; // a text, a second text that is not a number
    int                bare[3];  // in the first rows: a text, a second text, a label without quotes
    char               unread[256]; // list of text columns that are not read
    struct watch       watch;
};

/* True if a row with this hash (hash.h) is in the part that is evaluated on. */
int task_file_is_held(uint64_t hash, double split);

/* Read every row and its label from DIR/FILE, or from e->own, and count the rows. Any error in a
 * row is misuse; the sentence names the file and line. A file without rows is misuse.
 * The caller frees e->read by task_names_free, also after a failure. */
int task_file_check(struct task_file *e, const char *dir, const char *file, struct err *err);

/* Warn a user who may have meant another column. *out (size bytes) is empty or one sentence. which
 * 0, 1: all values of the first or second text are numbers. 2: some text columns are not read. 3: a
 * .tsv file seems to be quoted. */
enum { TASK_FILE_NOTICES = 4 };
void task_file_notice(const struct task_file *e, int which, char *out, size_t size);

/* Create the file of examples `path` and open it as *out; the caller closes it. pad: the id that
 * the model's folder pads with, or -1. No row ends with pad, because transformers takes a row to
 * end before it. For an encoder pad is ignored, because the row's length is passed to the model.
 * config: the model's; it decides whether ids carry token types. */
int task_file_encode(struct examples **out, const struct task_file *e, struct tokenizer *tok,
                     const struct model_config *config, size_t max_seq, long pad, const char *path,
                     struct err *err);

/* Count the tokens of every `every`-th of e->rows rows, for which n has room, as task_file_encode
 * encodes it. If the file has become shorter, the last of n stay as they are. */
int task_file_lengths(uint32_t *n, uint64_t every, const struct task_file *e,
                      struct tokenizer *tok, const struct model_config *config, size_t max_seq,
                      struct err *err);

struct task_labels {
    struct task task; // labels and metrics; for the user's own task no files or columns
    struct hf_labels labels; // of the user's own task: task.labels points into it
};

/* Add the task and n checked files to a run that is being created; training rows come first. Each
 * file becomes RUN/NAME.ex. */
int  task_files_add(struct session *s, const struct task_file *e, size_t n, uint64_t epochs,
                    struct tokenizer *tok, struct err *err);

int  task_labels_load(struct task_labels *l, struct session *s, struct err *err);
void task_labels_release(struct task_labels *l); // accepts the zero state

/* The columns of the user's own training file; all NULL if none were stored. The caller frees them
 * by task_names_free. */
void task_files_columns(struct task_names *out, const struct session *s);

/* Open RUN/NAME.ex. -EBADMSG if its checksum differs from the stored one. *out is NULL if the run
 * has no such file. The caller closes it; it may outlive the session. */
int task_files_open(struct examples **out, struct session *s, const char *name, struct err *err);

/* The number of rows of NAME; 0 if the run has no such file. */
uint64_t task_files_rows(struct session *s, const char *name);

/* Steps per epoch: rows / (batch * grad_accum), rounded up. */
uint64_t task_files_epoch_steps(uint64_t rows, const struct train_opts *o);
