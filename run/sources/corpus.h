/* corpus.h: the tokens that a language model's run is trained on ("data") and evaluated on
 * ("eval"): a token file that is read in place, or a text that is tokenised into RUN. A run keeps
 * where they are and their checksums, and expects those each time it opens them. */
#pragma once

#include "data/text/tokens.h"
#include "run/folder/session.h"
#include "run/sources/masking.h"

/* A file, and how it is to be taken; path NULL: none. */
struct corpus_file { const char *path; enum tokens_format as; };

/* Can this file be used? Refused are what is neither tokens nor text, text without a tokenizer
 * (a folder, or NULL), ids that the vocabulary does not have, a file too short for a row of seq. */
int corpus_check(struct corpus_file file, const char *tokenizer, size_t vocab, uint64_t seq,
                 const struct events *events, struct err *err);

/* Make it the run's. */
int corpus_add(struct session *s, const char *what, struct corpus_file file, struct err *err);

/* What a resume's command line says of it: nothing, the same file as before, one with the same
 * tokens, which may lie elsewhere now, or the first one of a run that has none yet (import made
 * it). */
int corpus_resume(struct session *s, const char *what, struct corpus_file file, struct err *err);

/* How rows of a masked language model are masked, by the run's own tokenizer. */
int corpus_masking(struct masking *out, const struct session *s, struct err *err);

/* Open it. *out NULL where the run has none. */
int corpus_open(struct tokens **out, struct session *s, const char *what, struct err *err);
