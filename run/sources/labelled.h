/* labelled.h: files of labelled texts, checked and made into files of examples
 * (data/task/examples.h) once, when a run is made; and what a fine-tuning keeps of its task in its
 * run: the task's name, the examples' files and their checksums. A pair is A, the end of a text, B,
 * or as the tokenizer's template has it; what is longer than max_seq is cut at its end, with a
 * template as transformers does it. */
#pragma once

#include "data/task/examples.h"
#include "data/task/task.h"
#include "data/text/tokenizer.h"
#include "model/hf.h"
#include "run/folder/session.h"

struct labelled_file {
    const char *name; // train, dev, dev_mm, test, test_mm: RUN/NAME.ex, NAME.sum and NAME.rows in
                      // run.db
    const struct task *task;
    int                own;     // one's own file; else the task's TSV
    struct task_names  asked;   // its columns, borrowed; all NULL: as their names suggest
    int                labels;  // rows without one are refused; else a label is not looked at
    uint64_t           most;    // rows; 0: all
    const struct events *events;
    // what labelled_check found
    char               path[4096]; // the file
    uint64_t           rows;
    int                pairs;   // there is one at least
    struct task_names  read;    // the columns of one's own file
    int                words[2]; // a text, a second text that is no number
    int                bare[3];  // of the first rows: a text, a second text, a label without quotes
    char               unread[256]; // columns of text that are not read, as a list
    struct watch       watch;
};

/* Read every row and its label, of DIR/FILE, or where dir is NULL of FILE: what is wrong is a
 * misuse sentence with file and line. Counts the rows; none is refused. e->read is the caller's to
 * task_names_free, also after a failure. */
int labelled_check(struct labelled_file *e, const char *dir, const char *file, struct err *err);

/* What a person should know who took another column for the text: *out (size bytes) is empty, or
 * says that all that is read as the first or second text (which 0, 1) are numbers, that columns
 * hold texts and are not read (2), or that a .tsv file seems to be quoted (3). */
enum { LABELLED_NOTICES = 4 };
void labelled_notice(const struct labelled_file *e, int which, char *out, size_t size);

/* Make the file `path` and open it. pad: the id that the model's folder pads with, or -1:
 * transformers takes a row to end before it, so none ends with it, also where the cut would leave
 * it there; but for an encoder's rows, whose length is told. config: of the model, whose ids have
 * types or not. */
int labelled_encode(struct examples **out, const struct labelled_file *e, struct tokenizer *tok,
                    const struct model_config *config, size_t max_seq, long pad, const char *path,
                    struct err *err);

struct labelled {
    struct task task; // labels and metrics; of one's own, files and columns are not known any more
    struct hf_labels labels; // of one's own: what task.labels points into
};

/* Into a run that is being made: the task, and what these n checked files (the training rows first)
 * are made of, as RUN/NAME.ex. */
int  labelled_add(struct session *s, const struct labelled_file *e, size_t n, uint64_t epochs,
                  struct tokenizer *tok, struct err *err);

int  labelled_load(struct labelled *l, struct session *s, struct err *err);
void labelled_release(struct labelled *l); // accepts the zero state

/* The columns that the training file of one's own was read from; all NULL where nothing was stored.
 * The caller's to task_names_free. */
void labelled_columns(struct task_names *out, const struct session *s);

/* RUN/NAME.ex, which must be what was stored; *out NULL where nothing was. It stays open, and is
 * the caller's to close, when the session is closed. */
int labelled_open(struct examples **out, struct session *s, const char *name, struct err *err);

/* Rows of NAME; 0 where there are none. */
uint64_t labelled_rows(struct session *s, const char *name);

/* Tokens that a row of a model may have: what was asked for, which is refused where the model has
 * fewer positions; or where that is 0, 128 if it has as many, and if its tokenizer (a folder; NULL
 * or "": none) does not cut rows at fewer. */
int labelled_seq(uint64_t *seq, uint64_t asked, size_t positions, const char *tokenizer,
                 struct err *err);

/* Steps of an epoch. */
uint64_t labelled_epoch_steps(uint64_t rows, const struct train_opts *o);
