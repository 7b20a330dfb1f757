/* tokenise.h: text files into one token file, and what --data names into something
 * that can be read as tokens. */
#ifndef CMD_RUN_TOKENISE_H
#define CMD_RUN_TOKENISE_H

#include "cmd/run/events.h"
#include "data/text/tokenizer.h"
#include "data/text/tokens.h"

#include <stddef.h>
#include <stdint.h>

/* Write the ids of texts[0..n) to a llm.c file: exactly the tokenizer's ids, nothing before or
 * after a text, one <|endoftext|> between two. In pieces: memory does not grow with the files.
 * *count gets the number of tokens. */
int tokenise_files(struct tokenizer *tok, const char *const *texts, size_t n, const char *out,
                   uint64_t *count, const struct events *events, struct err *err);

/* tokens_detect, with its progress. */
int tokenise_detect(const char *path, enum tokens_kind *kind, const struct events *events,
                    struct err *err);

/* 0, or misuse: the first of texts[0..n) that is not text. */
int tokenise_check_texts(const char *const *texts, size_t n, const struct events *events,
                         struct err *err);

/* A folder with a tokenizer's files? */
int tokenise_has_files(const char *dir);

#endif
