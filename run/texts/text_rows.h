/* text_rows.h: finds the text of a piece: of a row, the text under a key; otherwise the piece
 * itself. It is checked to be valid UTF-8 without NUL bytes. */
#pragma once

#include "run/texts/text_cut.h"

struct text_reading {
    const char *path, *column; // of the file, for sentences; of the text in a row
    uint64_t    split;         // a document whose hash is below this is on side 1
};

struct text_found {
    const char *text;
    size_t      n;
    int         side;
    char       *made; // the caller frees it
};

/* Finds the text of the piece p, whose bytes are at `bytes`. Returns misuse with file and line. */
int text_find(struct text_found *out, const struct text_reading *r, const struct text_piece *p,
              const char *bytes, struct err *err);
