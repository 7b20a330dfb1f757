/* row_sources.h: the sources of the training rows of a fine-tuning. Each --train-file is one. Their
 * rows lie in RUN/train.ex one source behind the other.
 *
 * Without weights all rows are one pool, and each epoch has each of them once (source.c,
 * chat_source.c). With weights (--mix) the rows of a training are numbered from its first step on,
 * and mixture.h says which row of which source has a number. Every step is full. */
#pragma once

#include "data/text/mixture.h"
#include "run/folder/session.h"
#include "run/folder/tune_opts.h"
#include "run/texts/text_list.h"

/* Stream of permute.h: "epoch", plus the number of an epoch of the pool. */
#define ROWS_EPOCH 0x65706f6368000000u

/* Check --mix, and that standard input is named once. */
int  row_sources_check(const struct tune_opts *o, struct err *err);
/* If one of the files is standard input, keep it next to the new run's name until stdin_spool_end.
 * Misuse: there are several ranks. */
int  row_sources_spool(const struct tune_opts *o, const char *run, size_t ranks,
                       const struct events *events, struct err *err);

/* While rows are encoded: of each source the number of rows (of preferences: pairs) and of
 * tokens. */
struct row_counts { struct row_count { uint64_t rows, tokens; } *of; size_t n; };

int  row_counts_open(struct row_counts *c, const struct text_list *list, struct err *err);
void row_counts_close(struct row_counts *c); // accepts the zero state
/* Store the sources with a run that is being created. mix: --mix; NULL: one pool. Misuse: a source
 * of a mixture that has no row. */
int  row_sources_store(struct session *s, const struct row_counts *c, const struct text_list *list,
                       const char *mix, struct err *err);
/* Store how many packed rows source i has. */
int  row_sources_store_packed(struct session *s, size_t i, uint64_t rows, struct err *err);

/* The sources of a run. order.n 0: an older version made the run, or it is no fine-tuning. */
struct row_sources {
    struct mixture order;     // sources without token files; weighted 0: one pool
    uint64_t      *examples;  // of each source in RUN/train.ex; of a preference, one
};
int  row_sources_open(struct row_sources *out, struct session *s, struct err *err);
void row_sources_close(struct row_sources *r);
/* The row of RUN/train.ex, counted over all sources, that has a number; only with weights. */
uint64_t row_sources_row(const struct row_sources *r, uint64_t number);

/* What the run's sources are, and what its first `steps` steps read of each, as corpus_sources
 * (corpus_open.h) has it. With --group-by-length a begun epoch counts in proportion. */
int row_sources_told(struct training_source **out, size_t *n, struct session *s, uint64_t steps,
                     struct err *err);
