/* labelled.h: what a fine-tuning keeps of its task in its run: the task's name, the examples' files
 * and their checksums. NAME is train, dev, dev_mm, test or test_mm (settings.h). */
#pragma once

#include "cmd/run/encode.h"
#include "cmd/run/session.h"
#include "data/task/task.h"
#include "model/hf.h"

struct labelled {
    struct task task; // labels and metrics; of one's own, files and columns are not known any more
    struct hf_labels labels; // of one's own: what task.labels points into
};

/* Into a run that is being made: the task, and what these n checked files (the training rows first)
 * are made of, as RUN/NAME.ex. */
int  labelled_add(struct session *s, const struct encode *e, size_t n, uint64_t epochs,
                  struct tokenizer *tok, struct err *err);

int  labelled_load(struct labelled *l, struct session *s, struct err *err);
void labelled_release(struct labelled *l); // accepts the zero state

/* The columns that the training file of one's own was read from; all NULL where nothing was stored.
 * The caller's to task_names_free. */
void labelled_columns(struct task_names *out, const struct session *s);

/* RUN/NAME.ex, which must be what was stored; *out NULL where nothing was. It stays open, and is
 * the caller's to close, when the session is closed. */
int labelled_open(struct examples **out, struct session *s, const char *name, struct err *err);

/* Rows of NAME, and of the larger of NAME and NAME_mm; 0 where there are none. */
uint64_t labelled_rows(struct session *s, const char *name);
uint64_t labelled_most_rows(struct session *s, const char *name);

/* Tokens that a row of a model may have: what was asked for, which is refused where the model has
 * fewer positions; or where that is 0, 128 if it has as many. */
int labelled_seq(uint64_t *seq, uint64_t asked, size_t positions, struct err *err);

/* Steps of an epoch. */
uint64_t labelled_epoch_steps(uint64_t rows, const struct train_opts *o);
