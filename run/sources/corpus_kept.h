/* corpus_kept.h: what run.db says of a language model's data (settings.h): where each source lies,
 * what it was made from, its checksums. */
#pragma once

#include "data/text/tokens.h"
#include "run/folder/session.h"

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
