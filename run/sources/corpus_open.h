/* corpus_open.h: the training data ("data") and the evaluation data ("eval") of a language model's
 * run: what run.db says of them (settings.h), which is where each source lies, what it was made
 * from, and its checksums; how they are opened; and what a training reads of each source. */
#pragma once

#include "data/text/mixture.h"
#include "data/text/tokens.h"
#include "run/folder/session.h"
#include "run/sources/masking.h"

enum { CORPUS_NAME = 32, CORPUS_MOST = 1024 }; // bytes of a name; sources of a set

/* The name of source i in run.db and in RUN: "data", "data.1", "data.2", ...; of evaluation data
 * "eval", "eval.1", ... */
const char *corpus_name(char out[CORPUS_NAME], const char *set, size_t i);

/* *n: the number of sources of a set ("data" or "eval"). */
int corpus_count(size_t *n, struct runlog *log, const char *set, struct err *err);

/* The stored settings of a source; all NULL: there is none. */
struct corpus_kept {
    char    *path, *text, *sums;
    char    *text_sum; // NULL: an older version made the run
    unsigned width;
};

/* Load the settings of the source with this name. The caller releases *k, also after a failure. */
int  corpus_kept_find(struct corpus_kept *k, struct runlog *log, const char *name,
                      struct err *err);
void corpus_kept_release(struct corpus_kept *k);

/* The checksums of a token file as stored text; malloced, also after a failure. */
int corpus_sums(char **out, const char *path, unsigned width, const struct events *events,
                struct err *err);

/* Store a token file with its checksums, or its path alone; a path inside RUN is stored relative to
 * it. */
int corpus_keep(struct session *s, const char *name, const char *path, unsigned width,
                struct err *err);
int corpus_keep_path(struct session *s, const char *name, const char *path, struct err *err);

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
