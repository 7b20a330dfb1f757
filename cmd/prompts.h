/* prompts.h: the texts that generate begins with: --prompt, the lines of --prompt-file, or
 * <|endoftext|> alone. */
#ifndef CMD_PROMPTS_H
#define CMD_PROMPTS_H

#include "data/text/tokenizer.h"

#include <stddef.h>
#include <stdint.h>

struct prompt {
    const char      *text; // (n), what is printed
    size_t           n;
    struct token_buf ids;  // at least one
    size_t           line; // in the file; 0: from the command line
};

struct prompts {
    struct prompt *item;
    size_t         n;
    char          *file; // its contents
};

/* texts[0..n_texts), then the lines of `path` (NULL: none); none at all: <|endoftext|>. */
int prompts_open(struct prompts *p, const char *const *texts, size_t n_texts, const char *path,
                 struct tokenizer *tok, struct err *err);
void prompts_close(struct prompts *p);

/* "the prompt", "prompt 3" or "FILE:3": how a sentence names prompt i. */
const char *prompts_name(const struct prompts *p, size_t i, const char *path, char *buf,
                         size_t size);

#endif
