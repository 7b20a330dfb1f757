/* tokenise.h: text files into one token file, or into a tokenizer. */
#pragma once

#include "cmd/run/events.h"
#include "data/text/tokenizer.h"
#include "data/text/tokens.h"

/* tokens_detect, with its progress. */
int tokenise_detect(const char *path, enum tokens_format as, size_t vocab, unsigned *width,
                    const struct events *events, struct err *err);

/* The first of these that is no text is refused; so is one that looks like JSON, unless `json` is
 * to be taken as it is. Both functions that follow refuse what is no text. */
int tokenise_check(const char *const *texts, size_t n, int json, const struct events *events,
                   struct err *err);

/* Write the ids of texts[0..n) to a llm.c file: exactly the tokenizer's ids, what its template puts
 * before and behind each text, and without a template one <|endoftext|> between two. In pieces:
 * memory does not grow with the files. *count gets the number of tokens. */
int tokenise_files(struct tokenizer *tok, const char *const *texts, size_t n, const char *out,
                   uint64_t *count, const struct events *events, struct err *err);

/* The same, if output_check lets it; asked again when all is written. */
struct output;
int tokenise_output(struct tokenizer *tok, const char *const *texts, size_t n,
                    const struct output *out, uint64_t *count, const struct events *events,
                    struct err *err);

/* Train a tokenizer of `vocab` ids on texts[0..n), and write it as the folder dir, if output_check
 * lets it: as a whole or not at all. *ids: what it has. */
int tokenise_train(const char *const *texts, size_t n, size_t vocab, const char *dir, size_t *ids,
                   const struct events *events, struct err *err);

/* A folder with a tokenizer's files? expect: another one is refused. */
int tokenise_has_files(const char *dir);
int tokenise_expect(const char *dir, struct err *err);
/* What is given in place of a model's own tokenizer has the same words under the same ids. Where
 * that of the model cannot be read nothing is compared. */
int tokenise_same(const char *given, const char *own, struct err *err);
