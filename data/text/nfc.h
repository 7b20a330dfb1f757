/* nfc.h: converts text to Unicode's normalization forms C and D (Unicode Standard Annex 15), as
 * Hugging Face's tokenizers do (with the tables of Unicode 9). Text is decomposed and its marks
 * are put into canonical order; for form C it is then composed. Bytes that are not UTF-8 stay as
 * they are. */
#pragma once

#include "data/base/err.h"

/* A receiver of text in pieces. fn is called for the pieces in order. If it returns other than 0,
 * the sender stops and passes that up. */
struct text_to {
    int (*fn)(void *arg, const char *text, size_t n, struct err *err);
    void *arg;
};

struct nfc;

/* Opens a converter to form C if `compose`, or else to form D. Caller closes, also after an
 * error. */
int  nfc_open(struct nfc **out, int compose, struct err *err);
void nfc_close(struct nfc *n);

/* Converts a text in pieces, fed in order. After the last piece, or an error, another text can
 * begin. Characters that may compose with the next piece are kept until then; nfc_reset drops
 * them. */
int  nfc_feed(struct nfc *c, const char *text, size_t n, int last, const struct text_to *to,
              struct err *err);
void nfc_reset(struct nfc *c);

/* Returns how many bytes at the beginning of a text, n > 0, are converted by themselves: their
 * form does not depend on the text around them. */
size_t nfc_unit(const struct nfc *c, const char *text, size_t n);
