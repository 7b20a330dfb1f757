/* nfc.h: text into Unicode's normalization forms C and D (Unicode Standard Annex 15), as Hugging
 * Face's tokenizers know them (the tables of Unicode 9): decomposed, marks in canonical order, and
 * for form C composed. Bytes that are not UTF-8 stay as they are. */
#pragma once

#include "data/base/err.h"
#include "data/base/text_to.h"

struct nfc;

/* compose: form C, else form D. Caller closes, also after an error. */
int  nfc_open(struct nfc **out, int compose, struct err *err);
void nfc_close(struct nfc *n);

/* A text in pieces, fed in order; after the last one, or an error, another text can begin. What may
 * compose with what follows is kept in between. nfc_reset forgets that. */
int  nfc_feed(struct nfc *c, const char *text, size_t n, int last, const struct text_to *to,
              struct err *err);
void nfc_reset(struct nfc *c);
