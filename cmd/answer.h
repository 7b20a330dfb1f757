/* answer.h: the text of one continuation, as it grows token by token, and onto stdout: it ends before the
 * first stop string, and what may still become one, or is a character cut in two, is held back. */
#ifndef CMD_ANSWER_H
#define CMD_ANSWER_H

#include "cmd/opt.h"

struct answer {
    char  *text; // (n), not terminated
    size_t n, cap, printed;
    int    ended; // nothing is added any more
};

/* Add a token's bytes. Where the text now has one of `stops` in it, it is cut before the first and has ended.
 */
int answer_add(struct answer *a, const char *bytes, size_t n, const struct opt_strings *stops,
               struct err *err);

/* Bytes that are final: all once it has ended. */
size_t answer_ready(const struct answer *a, const struct opt_strings *stops);

/* Print what is ready and was not yet. -EPIPE without a sentence: nobody reads any more, which is no
 * failure. */
int  answer_print(struct answer *a, const struct opt_strings *stops, struct err *err);
int  answer_write(const char *bytes, size_t n, struct err *err); // the same for other text

void answer_free(struct answer *a);

#endif
