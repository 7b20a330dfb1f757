/* feed.h: where a run's batches come from, and how it is evaluated: rows of a token file
 * (feed_lm.c), or labelled examples (feed_examples.c). training.c drives either through this. */
#ifndef CMD_RUN_FEED_H
#define CMD_RUN_FEED_H

#include "cmd/run/session.h"
#include "data/task/task.h"
#include "model/step.h"

enum { FEED_VALUES = 8 };

/* What an evaluation found: rows of the table evals. --keep-best follows value[0]. */
struct feed_values {
    struct { char name[48]; double value; } value[FEED_VALUES];
    size_t   n;
    int      larger_better; // of value[0]
    uint64_t count;         // what was evaluated: tokens, or rows
    double   seconds[TASK_SPLITS]; // that it took, for each file
};

struct feed { const struct feed_ops *ops; }; // first member of every backend

struct feed_ops {
    const char *counts; // "tokens" or "rows": what values.count counts
    /* As struct batch_source's. */
    int  (*batch)(struct feed *f, uint64_t step, size_t micro, struct batch *b, struct err *err);
    /* With the trainer's parameters as they are, where feed_has_eval; step: under which spans are
     * recorded. */
    int  (*evaluate)(struct feed *f, struct trainer *t, uint64_t step, struct feed_values *out,
                     struct err *err);
    void (*close)(struct feed *f);
};

/* Is there something to evaluate on? By the stored settings alone. */
int  feed_has_eval(struct session *s);

/* Store how long the last evaluation took, for the results' files: dev.seconds, dev_mm.seconds. */
int  feed_store_seconds(struct session *s, const struct feed_values *v, struct err *err);

/* Open the feed that the run's stored settings ask for ("task" there: examples; else tokens). */
int  feed_open(struct feed **out, struct session *s, struct err *err);
void feed_close(struct feed *f); // NULL is fine

int feed_lm_open(struct feed **out, struct session *s, struct err *err);
int feed_examples_open(struct feed **out, struct session *s, struct err *err);

#endif
