/* nfc.h: text into Unicode's normalization form C (Unicode Standard Annex 15), as Hugging Face's
 * tokenizers know it (the tables of Unicode 9): decomposed, marks in canonical order, composed.
 * Bytes that are not UTF-8 stay as they are. */
#pragma once

#include "data/base/err.h"

struct nfc;

/* Caller closes, also after an error. */
int  nfc_open(struct nfc **out, struct err *err);
void nfc_close(struct nfc *n);

/* Who takes the text: fn is called for its pieces in order. Non-zero stops and is passed up. */
struct nfc_to {
    int (*fn)(void *arg, const char *text, size_t n, struct err *err);
    void *arg;
};

/* A text in pieces, fed in order; after the last one, or an error, another text can begin. What may
 * compose with what follows is kept in between. nfc_reset forgets that. */
int  nfc_feed(struct nfc *c, const char *text, size_t n, int last, const struct nfc_to *to,
              struct err *err);
void nfc_reset(struct nfc *c);
