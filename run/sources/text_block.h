/* text_block.h: a block of text that was read, cut into pieces that are tokenised one by one. A
 * row is one piece. A text is a piece, or several that are cut where both parts have the tokens of
 * the whole (tokenizer_place). Where no such place is near, a piece is held: the tokenizer keeps
 * its state for the next piece. */
#pragma once

#include "data/base/err.h"

enum text_form {
    TEXT_PLAIN, // text that was not looked at yet
    TEXT_FIELD, // text, valid UTF-8: the field of a table
    TEXT_ROW,   // a JSON object with a text in it
};

struct text_piece {
    size_t   from, n;  // its bytes in the block
    uint64_t at, line; // of its first byte: the offset in the file's contents, the line (from 1)
    size_t   file;     // index of the file
    unsigned char form;
    unsigned char begins, ends;              // a document begins with it, ends with it
    unsigned char held_before, held_behind;  // goes on from the last piece, into the next one
    unsigned char side;  // TEXT_PLAIN: 1: the document goes to the split
    unsigned char words; // the file looks like a text in some encoding
};

/* Where reading stands: enough to go on from there. */
struct text_place {
    uint64_t file, at, line; // index of the file; offset in its contents, and line
    uint64_t rows;           // of a table: rows that were read
    uint64_t ahead;          // with a split: bytes whose side is known
    uint32_t sum;            // CRC32C of the contents of all files before this one
    uint8_t  list, begun, side, held; // as in struct text_cut
};

struct text_block {
    char              *text;
    size_t             n, cap;
    struct text_piece *piece;
    size_t             n_pieces, cap_pieces;
    struct text_place  place; // behind the block
    uint64_t           done;  // bytes of all files that have been used
    int                end;   // nothing follows; rc: because reading failed behind its pieces
    int                rc;
    struct err         err;
};
