/* tokenise.h: text files into one token file, or into a tokenizer. */
#pragma once

#include "cmd/run/events.h"
#include "data/text/tokenizer.h"
#include "data/text/tokens.h"

/* Write the ids of texts[0..n) to a llm.c file: exactly the tokenizer's ids, what its template puts
 * before and behind each text, and without a template one <|endoftext|> between two. In pieces:
 * memory does not grow with the files. */
struct tokenise_files {
    struct tokenizer  *tok;
    const char *const *texts;
    size_t             n;
    size_t             vocab; // of the model: tokens beyond it are refused; 0: there is none
    uint64_t           count; // what was written, tokens
};
int tokenise_files(struct tokenise_files *f, const char *out, const struct events *events,
                   struct err *err);

/* A tokenizer may have more tokens than the model has embeddings: the first of ids[0..n) that the
 * model does not have is refused by its name, and by its place in `where`, of which the ids are
 * those from `first` on. */
struct tokenise_ids { const int32_t *ids; size_t n, vocab; const char *where; uint64_t first; };
int tokenise_check(const struct tokenizer *tok, const struct tokenise_ids *c, struct err *err);

/* tokens_detect, with its progress. */
int tokenise_detect(const char *path, enum tokens_kind *kind, const struct events *events,
                    struct err *err);

/* Train a tokenizer of `vocab` ids on texts[0..n) and write its files into dir. *ids: what it
 * has. */
int tokenise_train(const char *const *texts, size_t n, size_t vocab, const char *dir, size_t *ids,
                   const struct events *events, struct err *err);

/* A folder with a tokenizer's files? expect: another one is refused. */
int tokenise_has_files(const char *dir);
int tokenise_expect(const char *dir, struct err *err);
/* What is given in place of a model's own tokenizer has the same words under the same ids. Where
 * that of the model cannot be read nothing is compared. */
int tokenise_same(const char *given, const char *own, struct err *err);
