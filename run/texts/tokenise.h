/* tokenise.h: tokenises text files into a token file, and trains a tokenizer on text files. */
#pragma once

#include "data/file/file.h"
#include "data/text/tokenizer.h"
#include "data/text/tokens.h"
#include "run/folder/events.h"

/* Calls tokens_detect and reports progress to `events`. */
int tokenise_detect(const char *path, enum tokens_format as, size_t vocab, unsigned *width,
                    const struct events *events, struct err *err);

/* Tokenise texts[0..n) into one file in llm.c's format. A file is rows of JSON, one document each,
 * or a text, which is one document (text_files.h); other files are refused by name. The template
 * of the tokenizer adds its tokens before and after each document. Without a template, the token
 * that ends a text separates two documents. All threads work, in blocks, so memory use does not
 * depend on the size of files.
 *
 * With a split, the 64-bit hash of a document says on which side it is, whatever else is there. A
 * text is then cut into documents of at least 4 KiB at line ends; those that follow one another on
 * one side are not separated. A split that leaves one side without tokens is misuse. */
struct output;
struct tokenise_files {
    struct tokenizer  *tok;
    const char *const *texts;     // files, folders, "-"; packed by gzip or zstd, or not
    size_t             n;
    const char        *column;    // key of the text in rows (.jsonl, .json, .csv); NULL: "text"
    enum tokens_format as;        // TOKENS_TEXT: a file that looks like JSON is plain text
    double             split;     // part of the documents, chosen by a hash of their contents,
    const char        *split_out; // that goes into this token file instead; 0, NULL: none
    int                split_or_none; // 1: it may be that no document is chosen
    size_t             vocab;     // of the model: larger ids are refused; 0: no model
    uint64_t           threads;   // 0: as many as OpenMP uses
    const char        *goes_on;   // the tokenizer's folder: what a killed process or Ctrl-C left of
                                  // the same files and options is gone on with; NULL: never
    uint64_t           save_ns;   // how often what is done is made durable for that; 0: 30 s
    int                remembers; // with goes_on: a complete file that was made so is not made anew
    const char        *place;     // in sentences, where what is left stands; NULL: the file's name
    uint64_t           time_limit; // seconds of this process until it ends so that another one goes
                                   // on (err_time); 0: none
    const struct output *checked, *split_checked; // (output.h) checked again before the files get
                                                  // their names; or NULL
    uint64_t           count, split_count; // out: tokens written into `out` and `split_out`
    uint32_t           sum;                // out: CRC32C of all texts, unpacked, in order
};
int tokenise_files(struct tokenise_files *f, const char *out, const struct events *events,
                   struct err *err);

/* Returns whether the tokens that were made stay after `rc`, because the same command goes on
 * behind them: a call that failed says nothing of them. */
static inline int tokenise_stays(int rc, const struct err *err)
{
    return err_goes_on(rc, err) || file_is_unread(rc);
}

/* The CRC32C of a text, or of all texts in a folder, as tokenise_files gives it. */
int tokenise_sum(uint32_t *sum, const char *path, const struct events *events, struct err *err);

/* Check ids[0..n) against the model's vocabulary, because a tokenizer may have more tokens than the
 * model has embeddings. Returns misuse for the first id that is too large. The sentence names the
 * token and its position in `where`; ids[0] is at position `first`. */
struct tokenise_ids { const int32_t *ids; size_t n, vocab; const char *where; uint64_t first; };
int tokenise_known(const struct tokenizer *tok, const struct tokenise_ids *c, struct err *err);

/* Train a tokenizer with `vocab` ids on texts[0..n), which are read as tokenise_files reads them,
 * and write it into the folder dir. The folder is written completely or not at all. Returns misuse
 * if output_check refuses dir or if a file is not a text or rows. */
struct tokenise_train {
    const char *const *texts;
    size_t             n;
    const char        *column; // as in struct tokenise_files
    enum tokens_format as;
    size_t             vocab;
    const char        *dir;
    size_t             ids;    // out: the tokenizer's number of ids
};
int tokenise_train(struct tokenise_train *t, const struct events *events, struct err *err);

/* Compare the tokenizer `given` with the model's `own`. Returns misuse if an id is another word or
 * if the merges differ. If the model's own tokenizer is of an unknown kind, nothing is compared. */
int tokenise_same(const char *given, const char *own, struct err *err);
