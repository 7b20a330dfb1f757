/* corpus.h: the training data ("data") and the evaluation data ("eval") of a language model's run.
 * Each is a list of sources. A source is a token file, read in place, or texts, tokenised into RUN.
 * The run stores paths and checksums, and checks them at each open. */
#pragma once

#include "run/sources/corpus_open.h"

/* The data of a new run, as its user names them. */
struct corpus_opts {
    struct opt_strings data, eval_data; // files, folders, "-" (standard input)
    int                format;          // enum tokens_format, of all of them
    const char        *column;          // the text's in rows; NULL: "text"
    const char        *mix;             // weights of the sources, with commas; NULL: one pool
    double             split;           // part of the documents that is evaluated on; 0: none
    const char        *tokenizer; // the folder that texts are tokenised by; its sizes and times
                                  // decide whether corpus_add goes on; NULL: it never does
};

/* Check the options, and that each source can be used as tokens or as text. tokenizer: a folder, or
 * NULL. Misuse: a file of another kind; a text without a tokenizer; an id outside the vocabulary;
 * fewer tokens than a row of seq needs; weights that do not fit. */
int corpus_check(const struct corpus_opts *o, const char *tokenizer, size_t vocab, uint64_t seq,
                 const struct events *events, struct err *err);

/* What a file of data is: *width gets the bytes of an id, or 0 for texts (tokenise_detect). */
int corpus_detect(const char *path, enum tokens_format as, size_t vocab, unsigned *width,
                  const struct events *events, struct err *err);

/* Look at the beginning of a text, or of all texts in a folder. Misuse if one cannot be read. */
int corpus_check_text(const char *path, const struct corpus_opts *o, struct err *err);

/* How often standard input is among the data. */
size_t corpus_reads_input(const struct corpus_opts *o);

/* Add all of it to a run. Texts are tokenised into RUN/data.bin, RUN/data.1.bin, ... What a killed
 * process left of the same texts is gone on with (tokenise.h). err_time: the time limit (s->o) is
 * over in the middle. After that, and after a stop, what is done stays; after another failure these
 * files are gone. The caller forgets the settings. */
int corpus_add(struct session *s, const struct corpus_opts *o, struct err *err);

/* Remove tokens in the folder of a new run that no source of it has: an ended maker made them of
 * other texts. */
int corpus_clear_others(struct session *s, struct err *err);

/* Apply the data options of a resume. Accepted are: none; the files that the run has; files with
 * the same tokens at another path; the weights and the split that the run has; and any valid data
 * if the run has none yet (a run made by import). Others are misuse. */
int corpus_resume(struct session *s, const struct corpus_opts *o, struct err *err);
/* What corpus_resume refuses before it adds data. It may store another path of the same tokens. */
int corpus_resume_check(struct session *s, const struct corpus_opts *o, struct err *err);
