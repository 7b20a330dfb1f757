/* continuation.h: the text of one continuation, as it grows token by token, and onto stdout: it
 * ends before the first stop string, and what may still become one, or is a character cut in two,
 * is held back. */
#ifndef CMD_CONTINUATION_H
#define CMD_CONTINUATION_H

#include "cmd/run/generator.h"

struct continuation {
    const struct opt_strings *stops; // NULL: it has none
    char  *text;                     // (n), not terminated; malloced
    size_t n, cap, printed;
    int    ended; // nothing is added any more
};

/* Add bytes. Where the text now has a stop string in it, it is cut before the first and has ended.
 */
int continuation_add(struct continuation *a, const char *bytes, size_t n, struct err *err);
/* The same of a token's; <|endoftext|> ends it. */
int continuation_token(struct continuation *a, const struct tokenizer *tok, int32_t id,
                       struct err *err);

/* Print what is ready and was not yet. -EPIPE without a sentence: nobody reads any more, which is
 * no failure. */
int continuation_print(struct continuation *a, struct err *err);
int continuation_write(const char *bytes, size_t n, struct err *err); // the same for other text

#endif
