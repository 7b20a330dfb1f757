/* feed.h: where a run's batches come from, and how it is evaluated: rows of a token file, or
 * labelled examples. */
#pragma once

#include "data/task/task.h"
#include "run/folder/session.h"

/* What an evaluation found; --keep-best follows told.value[0]. */
struct feed_values {
    struct training_evaluation told;     // but for step and best
    int    larger_better;                // of told.value[0]
    double seconds[TASK_SPLITS];         // that it took, for each file
};

struct feed; // opaque

/* Is there something to evaluate on? By the stored settings alone. */
int  feed_has_eval(struct session *s);

/* Open the feed that the run's stored settings ask for ("task" there: examples; else tokens). */
int  feed_open(struct feed **out, struct session *s, struct err *err);
void feed_close(struct feed *f); // NULL is fine

/* As struct batch_source has it, whose ctx is the feed. */
int feed_batch(void *feed, uint64_t step, size_t micro, struct batch *b, struct err *err);

/* With the trainer's parameters as they are, where feed_has_eval; step: under which spans are
 * recorded. */
int feed_evaluate(struct feed *f, struct trainer *t, uint64_t step, struct feed_values *out,
                  struct err *err);
