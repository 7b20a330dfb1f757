/* corpus.h: the training data ("data") and the evaluation data ("eval") of a language model's run.
 * Each is a list of sources. A source is a token file, read in place, or texts, tokenised into RUN.
 * The run stores paths and checksums, and checks them at each open. */
#pragma once

#include "data/text/mixture.h"
#include "run/folder/session.h"
#include "run/sources/corpus_kept.h"
#include "run/sources/masking.h"

/* The data of a new run, as its user names them. */
struct corpus_opts {
    struct opt_strings data, eval_data; // files, folders, "-" (standard input)
    int                format;          // enum tokens_format, of all of them
    const char        *column;          // the text's in rows; NULL: "text"
    const char        *mix;             // weights of the sources, with commas; NULL: one pool
    double             split;           // part of the documents that is evaluated on; 0: none
};

/* Check the options, and that each source can be used as tokens or as text. tokenizer: a folder, or
 * NULL. Misuse: a file of another kind; a text without a tokenizer; an id outside the vocabulary;
 * fewer tokens than a row of seq needs; weights that do not fit. */
int corpus_check(const struct corpus_opts *o, const char *tokenizer, size_t vocab, uint64_t seq,
                 const struct events *events, struct err *err);

/* How often standard input is among the data. */
int corpus_reads_input(const struct corpus_opts *o);

/* Add all of it to a run. Texts are tokenised into RUN/data.bin, RUN/data.1.bin, ... */
int corpus_add(struct session *s, const struct corpus_opts *o, struct err *err);

/* Apply the data options of a resume. Accepted are: none; the files that the run has; files with
 * the same tokens at another path; the weights and the split that the run has; and any valid data
 * if the run has none yet (a run made by import). Others are misuse. */
int corpus_resume(struct session *s, const struct corpus_opts *o, struct err *err);

/* Find the special tokens for masked rows, from the run's own tokenizer. */
int corpus_masking(struct masking *out, const struct session *s, struct err *err);

/* Open the token files of a set and check them against the stored checksums. out->n is 0 if the run
 * has no such data. The caller closes it by mixture_close, also after a failure. The rows of
 * sources are not set (masking_rows). */
int corpus_open(struct mixture *out, struct session *s, const char *set, struct err *err);

/* Open one of these (corpus_name) by itself. */
int corpus_open_source(struct tokens **out, struct session *s, const char *name, struct err *err);

/* What a training reads of a source. */
struct corpus_source {
    char    *name;         // the file or folder that it comes from
    uint64_t tokens, rows; // rows of an epoch
    uint64_t taken;        // rows that were read
    double   share;        // its part of the training's rows
};
/* *out: the run's sources after `steps` steps; free it by corpus_sources_free. *n is 0 if a version
 * that did not store these numbers made the run, or if its data are no tokens. */
int  corpus_sources(struct corpus_source **out, size_t *n, struct session *s, uint64_t steps,
                    struct err *err);
void corpus_sources_free(struct corpus_source *all, size_t n);
