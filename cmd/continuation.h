/* continuation.h: a generated text on its way to stdout. */
#pragma once

#include "data/opt/opt.h"
#include "run/loop/generator.h"

/* The text of one, as it grows token by token, and onto stdout: it ends before the first stop
 * string, and what may still become one is held back; it may span tokens. */
struct continuation {
    const struct opt_strings *stops; // NULL: it has none
    struct token_text         t;
    size_t                    printed;
    int                       ended; // nothing is added any more
};

/* A token more; one that ends texts ends the continuation. */
int continuation_token(struct continuation *a, const struct generator *g, int32_t id,
                       struct err *err);
/* No token comes any more: what waited for one is text. */
int continuation_end(struct continuation *a, const struct tokenizer *tok, struct err *err);

/* Print what is final and was not printed yet: everything, once it has ended. */
int continuation_print(struct continuation *a, struct err *err);

/* Bytes onto stdout, at once. A terminal shows control characters as what they are; a file or a
 * pipe gets every byte. -EPIPE without a sentence: nobody reads any more, which is no failure. */
int continuation_write(const char *bytes, size_t n, struct err *err);
