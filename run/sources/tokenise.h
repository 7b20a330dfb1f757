/* tokenise.h: text files into one token file, or into a tokenizer. */
#pragma once

#include "data/text/tokenizer.h"
#include "data/text/tokens.h"
#include "run/folder/events.h"

/* tokens_detect, with its progress. */
int tokenise_detect(const char *path, enum tokens_format as, size_t vocab, unsigned *width,
                    const struct events *events, struct err *err);

/* The first of these that is no text is refused; so is one that looks like JSON, unless `json` is
 * to be taken as it is. */
int tokenise_check(const char *const *texts, size_t n, int json, const struct events *events,
                   struct err *err);

/* Write the ids of texts[0..n), which tokenise_check or tokenise_detect has taken, to a llm.c file:
 * exactly the tokenizer's ids, what its template puts before and behind each text, and without a
 * template one <|endoftext|> between two. In pieces: memory does not grow with the files. */
struct output;
struct tokenise_files {
    struct tokenizer  *tok;
    const char *const *texts;
    size_t             n;
    size_t             vocab; // of the model: tokens beyond it are refused; 0: there is none
    const struct output *checked; // (output.h) looked at once more when all is written; or NULL
    uint64_t           count; // what was written, tokens
    uint32_t           sum;   // CRC32C of all texts
};
int tokenise_files(struct tokenise_files *f, const char *out, const struct events *events,
                   struct err *err);

/* The CRC32C of one text. */
int tokenise_sum(uint32_t *sum, const char *path, const struct events *events, struct err *err);

/* A tokenizer may have more tokens than the model has embeddings: the first of ids[0..n) that the
 * model does not have is refused by its name, and by its place in `where`, of which the ids are
 * those from `first` on. */
struct tokenise_ids { const int32_t *ids; size_t n, vocab; const char *where; uint64_t first; };
int tokenise_known(const struct tokenizer *tok, const struct tokenise_ids *c, struct err *err);

/* Train a tokenizer of `vocab` ids on texts[0..n), and write it as the folder dir, if output_check
 * lets it: as a whole or not at all. What is no text is refused. *ids: what it has. */
int tokenise_train(const char *const *texts, size_t n, size_t vocab, const char *dir, size_t *ids,
                   const struct events *events, struct err *err);

/* Refuse a tokenizer that is given in place of a model's own, if it has other words under the same
 * ids, or other merges. Where that of the model cannot be read nothing is compared. */
int tokenise_same(const char *given, const char *own, struct err *err);
