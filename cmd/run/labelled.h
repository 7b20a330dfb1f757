/* labelled.h: what a fine-tuning keeps of its task in its run: the task's name, the examples' files
 * and their checksums. NAME is train, dev, dev_mm, test or test_mm (settings.h). */
#ifndef CMD_RUN_LABELLED_H
#define CMD_RUN_LABELLED_H

#include "cmd/run/encode.h"
#include "cmd/run/session.h"
#include "data/task/examples.h"
#include "data/task/task.h"
#include "model/hf.h"

struct labelled {
    struct task task; // labels and metrics; of one's own, files and columns are not known any more
    struct hf_labels labels; // of one's own: what task.labels points into
};

int  labelled_load(struct labelled *l, struct session *s, struct err *err);
void labelled_release(struct labelled *l); // accepts the zero state

/* sum: of the examples made of e, which was checked. */
int labelled_store(struct session *s, const struct encode *e, uint32_t sum, struct err *err);

/* RUN/NAME.ex, which must be what was stored; *out NULL where nothing was. */
int labelled_open(struct examples **out, struct session *s, const char *name, struct err *err);

/* The same of a file whose session is closed; model: what it goes through. */
int labelled_open_file(struct examples **out, const char *path, uint32_t sum,
                       const struct gpt_config *gpt, struct err *err);

/* Rows of NAME, and of the larger of NAME and NAME_mm; 0 where there are none. */
uint64_t labelled_rows(struct session *s, const char *name);
uint64_t labelled_most_rows(struct session *s, const char *name);

/* Tokens that a row of a model may have: what was asked for, or where that is 0, 128
 * if the model has as many. */
uint64_t labelled_seq(uint64_t asked, size_t positions);

/* Steps of an epoch. */
uint64_t labelled_epoch_steps(uint64_t rows, const struct train_opts *o);

#endif
