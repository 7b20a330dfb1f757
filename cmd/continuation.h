/* continuation.h: the text of one continuation, as it grows token by token, and onto stdout: it
 * ends before the first stop string, and what may still become one, or is a character cut in two,
 * is held back. */
#ifndef CMD_CONTINUATION_H
#define CMD_CONTINUATION_H

#include "cmd/opt/opt.h"

struct continuation {
    char  *text; // (n), not terminated
    size_t n, cap, printed;
    int    ended; // nothing is added any more
};

/* Add a token's bytes. Where the text now has one of `stops` in it, it is cut before the first and
 * has ended.
 */
int continuation_add(struct continuation *a, const char *bytes, size_t n,
                     const struct opt_strings *stops, struct err *err);

/* Print what is ready and was not yet. -EPIPE without a sentence: nobody reads any more, which is
 * no failure. */
int  continuation_print(struct continuation *a, const struct opt_strings *stops, struct err *err);
int  continuation_write(const char *bytes, size_t n, struct err *err); // the same for other text

void continuation_free(struct continuation *a);

#endif
