/* feed.h: the data source of a run. It supplies training batches, and it evaluates the model. The
 * rows come from a token file or from labelled examples. */
#pragma once

#include "data/task/task.h"
#include "run/folder/session.h"

/* Results of an evaluation. --keep-best compares told.value[0]. */
struct feed_values {
    struct training_evaluation told;     // without step and best
    int    larger_better;                // a larger told.value[0] is better
    double seconds[TASK_SPLITS];         // duration for each evaluation file
};

struct feed; // opaque

/* True if the run has evaluation data. Reads only the stored settings. */
int  feed_has_eval(struct session *s);

/* Open the run's data source. If the setting "task" is stored, it reads labelled examples;
 * otherwise it reads tokens. *out must be closed by feed_close, also after a failure. */
int  feed_open(struct feed **out, struct session *s, struct err *err);
void feed_close(struct feed *f); // NULL is fine

/* The callback of struct batch_source; its ctx is the feed. */
int feed_batch(void *feed, uint64_t step, size_t micro, struct batch *b, struct err *err);

/* Evaluate with the trainer's current parameters. Requires feed_has_eval. `step` labels the
 * recorded spans. */
int feed_evaluate(struct feed *f, struct trainer *t, uint64_t step, struct feed_values *out,
                  struct err *err);
