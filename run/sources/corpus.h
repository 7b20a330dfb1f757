/* corpus.h: the training data ("data") and the evaluation data ("eval") of a language model's run.
 * Each is a token file, read in place, or a text, tokenised into RUN. The run stores paths and
 * checksums, and checks them at each open. */
#pragma once

#include "data/text/tokens.h"
#include "run/folder/session.h"
#include "run/sources/masking.h"

/* A data file and its format; path NULL: none. */
struct corpus_file { const char *path; enum tokens_format as; };

/* Check that a file can be used as tokens or as text. tokenizer: a folder, or NULL. Misuse: a file
 * of another kind; a text without a tokenizer; an id outside the vocabulary; fewer tokens than a
 * row of seq needs. */
int corpus_check(struct corpus_file file, const char *tokenizer, size_t vocab, uint64_t seq,
                 const struct events *events, struct err *err);

/* Add the file to the run as `what`. A text is tokenised into RUN/WHAT.bin. */
int corpus_add(struct session *s, const char *what, struct corpus_file file, struct err *err);

/* Apply --data or --eval-data of a resume. Accepted are: no file; the file that the run has; a file
 * with the same tokens at another path; any valid file if the run has none yet (a run made by
 * import). Another file is misuse. */
int corpus_resume(struct session *s, const char *what, struct corpus_file file, struct err *err);

/* Find the special tokens for masked rows, from the run's own tokenizer. */
int corpus_masking(struct masking *out, const struct session *s, struct err *err);

/* Open the run's tokens and check them against the stored checksums. *out is NULL if the run has no
 * such data. The caller closes it. */
int corpus_open(struct tokens **out, struct session *s, const char *what, struct err *err);
