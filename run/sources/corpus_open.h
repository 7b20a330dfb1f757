/* corpus_open.h: opens the training data ("data") and the evaluation data ("eval") of a language
 * model's run, and says what a training reads of each source. */
#pragma once

#include "data/text/mixture.h"
#include "run/folder/session.h"
#include "run/sources/masking.h"

/* Find the special tokens for masked rows, from the run's own tokenizer. */
int corpus_masking(struct masking *out, const struct session *s, struct err *err);

/* Open the token files of a set and check them against the stored checksums. out->n is 0 if the run
 * has no such data. The caller closes it by mixture_close, also after a failure. The rows of
 * sources are not set (masking_rows). */
int corpus_open(struct mixture *out, struct session *s, const char *set, struct err *err);

/* Open one of these (corpus_name) by itself. */
int corpus_open_source(struct tokens **out, struct session *s, const char *name, struct err *err);

/* *out: the run's sources, with the rows that its first `steps` steps read of each; free it by
 * corpus_sources_free. *n is 0 if a version that did not store these numbers made the run, or if
 * its data are no tokens. */
int  corpus_sources(struct training_source **out, size_t *n, struct session *s, uint64_t steps,
                    struct err *err);
void corpus_sources_free(struct training_source *all, size_t n);
