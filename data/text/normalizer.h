/* normalizer.h: what is done with a text before it is cut: the steps of a tokenizer.json's
 * normalizer, one behind the other, over a text in pieces. */
#pragma once

#include "data/base/err.h"
#include "data/base/text_to.h"

enum normalizer_kind {
    NORMALIZER_NFC,
    NORMALIZER_NFD,
    NORMALIZER_PREPEND,   // `to` before a text that is not empty
    NORMALIZER_REPLACE,   // each `from`, which is one character, becomes `to`
    NORMALIZER_CLEAN,     // BERT's clean_text: white space is " ", what cannot be seen goes
    NORMALIZER_CHINESE,   // BERT's handle_chinese_chars: " " before and behind an ideograph
    NORMALIZER_UNMARK,    // marks that take no space go
    NORMALIZER_LOWERCASE, // each character for itself
};

struct normalizer_step {
    enum normalizer_kind kind;
    const char          *from, *to; // where the kind has them
};

struct normalizer;

/* The strings of the steps are copied. Caller closes, also after an error. */
int  normalizer_open(struct normalizer **out, const struct normalizer_step *steps, size_t n,
                     struct err *err);
void normalizer_close(struct normalizer *c);

/* A text in pieces of any size, fed in order; after the last one (which may be empty), or an error,
 * another text can begin. What depends on what follows is kept in between: normalizer_reset
 * forgets it. Bytes that are not UTF-8 stay as they are; CLEAN removes them, as it does U+FFFD. */
int  normalizer_feed(struct normalizer *c, const char *text, size_t n, int last,
                     const struct text_to *to, struct err *err);
void normalizer_reset(struct normalizer *c);
