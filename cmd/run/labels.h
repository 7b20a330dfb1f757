/* labels.h: a classifier's labels by name, as a run stores them (config.labels). */
#ifndef CMD_RUN_LABELS_H
#define CMD_RUN_LABELS_H

#include "data/db/runlog.h"
#include "model/hf.h"

int labels_store(struct runlog *log, const struct hf_labels *labels, struct err *err);

/* Those of a model of n labels. It has 0 where none are stored: a language model's, or labels
 * without names. Freed by hf_labels_free. dir: the run's, for sentences. */
int labels_load(struct hf_labels *out, struct runlog *log, const char *dir, size_t n,
                struct err *err);

#endif
