/* normalizer.h: normalizes a text before it is split: applies the steps of a tokenizer.json's
 * normalizer, one after the other, to a text in pieces. */
#pragma once

#include "data/base/err.h"
#include "data/text/nfc.h"
#include "data/text/origin.h"

enum normalizer_kind {
    NORMALIZER_NFC,
    NORMALIZER_NFD,
    NORMALIZER_PREPEND,   // puts `to` before a text that is not empty
    NORMALIZER_REPLACE,   // replaces each `from`, one character, by `to`
    NORMALIZER_CLEAN,     // BERT's clean_text: white space becomes " ", invisible characters are
                          // removed
    NORMALIZER_CHINESE,   // BERT's handle_chinese_chars: puts " " before and after an ideograph
    NORMALIZER_UNMARK,    // removes marks that take no space
    NORMALIZER_LOWERCASE, // lowercases each character by itself
};

struct normalizer_step {
    enum normalizer_kind kind;
    const char          *from, *to; // of the kinds that use them
};

struct normalizer;

/* Opens a normalizer. The strings of the steps are copied. Caller closes, also after an error. */
int  normalizer_open(struct normalizer **out, const struct normalizer_step *steps, size_t n,
                     struct err *err);
void normalizer_close(struct normalizer *c);
/* Opens another one with the same steps. */
int  normalizer_copy(struct normalizer **out, const struct normalizer *c, struct err *err);

/* Returns which texts are normalized the same if they are cut before a space, or behind a newline,
 * between characters that are not white space. Both parts are then normalized alone. */
enum normalizer_cuts {
    NORMALIZER_CUTS_NONE,  // no text
    NORMALIZER_CUTS_WORDS, // texts of which only the words between white space matter
    NORMALIZER_CUTS_ANY,   // all texts: characters that are not white space stay such characters
};
enum normalizer_cuts normalizer_cuts(const struct normalizer *c);

/* Normalizes a text in pieces of any size, fed in order. After the last piece, which may be
 * empty, or an error, another text can begin. Text that depends on the next piece is kept until
 * then; normalizer_reset drops it. Bytes that are not UTF-8 stay as they are, except that CLEAN
 * removes them, as it does U+FFFD. */
int  normalizer_feed(struct normalizer *c, const char *text, size_t n, int last,
                     const struct text_to *to, struct err *err);
void normalizer_reset(struct normalizer *c);

/* Normalizes a whole text. *x has at first the text, and then what it became, with the span of what
 * each byte was made of: the character, or the characters that were combined. What was put before a
 * text has the span of its first character. Do not call this between the pieces of a text. */
int  normalizer_trace(struct normalizer *c, struct traced *x, struct err *err);
