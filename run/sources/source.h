/* source.h: the data source of a run. It supplies training batches, and it evaluates the model. The
 * rows come from token files, from conversations or from labelled examples. */
#pragma once

#include "data/task/task.h"
#include "run/folder/session.h"

/* Results of an evaluation. --keep-best compares told.value[0]. */
struct source_values {
    struct training_evaluation told;     // without step and best
    int    larger_better;                // a larger told.value[0] is better
    double seconds[TASK_SPLITS];         // duration for each evaluation file
};

struct source; // opaque

/* True if the run has evaluation data. Reads only the stored settings. */
int  source_has_eval(struct session *s);

/* The name of the value that evaluations are compared by, as told.value[0] has it, and whether a
 * larger one is better. Reads only the stored settings. */
int  source_compares(char *name, size_t size, int *larger, struct session *s, struct err *err);

/* Rows that an evaluation reads, as far as they are known. */
uint64_t source_eval_rows(struct session *s);

/* Rows whose number the memory plan depends on (plan/memory.h). */
uint64_t source_rows(struct session *s);

/* Steps of an epoch of a fine-tuning; 0: its rows are not known. */
uint64_t source_epoch_steps(struct session *s);

/* *out: the sources of the run's rows, and what its first `steps` steps read of each. *n is 0 if
 * they are not known: a version that did not store them made the run. Free by
 * corpus_sources_free (corpus_open.h). */
int  source_told(struct training_source **out, size_t *n, struct session *s, uint64_t steps,
                 struct err *err);

/* Open the run's data source. If the setting "task" is stored, it reads labelled examples;
 * otherwise it reads tokens. *out must be closed by source_close, also after a failure. */
int  source_open(struct source **out, struct session *s, struct err *err);
void source_close(struct source *f); // NULL is fine

/* The callback of struct batch_source; its ctx is the source. */
int source_batch(void *source, uint64_t step, size_t micro, struct batch *b, struct err *err);

/* Of a run of pairs, what the reference model says to them (reference.h): true if it is not there
 * yet; compute it with the trainer's parameters; store it, with the stream drained. */
int source_lacks_reference(const struct source *f);
int source_reference(struct source *f, struct trainer *t, struct err *err);
int source_keep_reference(struct source *f, struct session *s, struct err *err);

/* Evaluate with the trainer's current parameters. Requires source_has_eval. `step` labels the
 * recorded spans. */
int source_evaluate(struct source *f, struct trainer *t, uint64_t step, struct source_values *out,
                  struct err *err);
