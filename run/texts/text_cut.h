/* text_cut.h: cuts the bytes of a file into pieces: lines of JSON, the objects of a JSON list, or a
 * text. With a split, a text is cut into documents, too: behind the first line end at least 4 KiB
 * from its beginning. The hash of a document's bytes says on which side it is. */
#pragma once

#include "data/text/tokenizer.h"

/* A block of text that was read, cut into pieces that are tokenised one by one. A row is one piece.
 * A text is a piece, or several that are cut where both parts have the tokens of the whole
 * (tokenizer_place). Where no such place is near, a piece is held: the tokenizer keeps its state
 * for the next piece. */
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

enum text_kind { TEXT_KIND_PLAIN, TEXT_KIND_LINES, TEXT_KIND_LIST, TEXT_KIND_TABLE };
enum text_in_list { TEXT_LIST_BEFORE, TEXT_LIST_FIRST, TEXT_LIST_NEXT, TEXT_LIST_COMMA,
                 TEXT_LIST_ENDED };

struct text_cut {
    enum text_kind          kind;
    const struct tokenizer *tok;
    const char             *path;  // for sentences
    uint64_t                split; // documents whose hash is below this go to the split; 0: none
    size_t                  file;  // index, for the pieces
    int                     words; // it looks like a text in some encoding
    // where it stands; of a new file all are 0, but line is 1
    uint64_t       at, line;
    enum text_in_list list;  // TEXT_KIND_LIST
    int            begun; // TEXT_KIND_PLAIN: the document under way has had a piece
    int            held;  // and that piece was held
    int            side;  // the document's
    size_t         ahead; // so many bytes from `at` on belong to it
};

/* Cuts b->text[from..b->n), which begins at c->at, as far as possible. `final`: the file ends
 * there. Adds pieces to b. *used: bytes from `from` on that are not needed again. */
int text_cut(struct text_cut *c, struct text_block *b, size_t from, int final, size_t *used,
             struct err *err);

/* The hash below which the part `split` (0..1) of all documents lies. */
uint64_t text_split_below(double split);
/* Adds a piece to a block. */
int text_piece_add(struct text_block *b, const struct text_piece *p, struct err *err);
/* Returns how many lines end in text[0..n): at \n, or at \r without \n behind it. */
uint64_t text_lines(const char *text, size_t n);
