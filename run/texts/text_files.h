/* text_files.h: reads files, folders and standard input, packed or not, as blocks of documents. The
 * contents of a file say what it is: rows of JSON (one a line, or a list), or a text. A name that
 * ends in .csv may be a table, of which one column is read. Anything else is refused by its name.
 *
 *     text_files_open(&t, &of, events, &err)            looks at the beginning of all files
 *     do text_files_read(t, &block); while (!block.end && !block.rc)
 *     text_files_close(t)
 *
 * Memory is that of a block, of the longest row, and of what unpacking takes. */
#pragma once

#include "run/folder/events.h"
#include "run/texts/text_list.h"
#include "run/texts/text_rows.h"

struct text_files;

struct text_files_of {
    const char *const      *texts; // (n) files, folders, "-"
    size_t                  n;
    const char             *column;  // of the text in rows; NULL: "text"
    int                     plain;   // what looks like rows is a text, too
    double                  split;   // part of the documents on side 1
    const struct tokenizer *tok;     // says where a text may be cut
    const char             *written[TEXT_WRITTEN]; // outputs, or NULLs: no folder may contain them
};

/* Opens. Notices say what a table is read as. The caller closes. */
int  text_files_open(struct text_files **out, const struct text_files_of *of,
                     const struct events *events, struct err *err);
void text_files_close(struct text_files *t);

/* Goes on at a place of an earlier reading of the same files. The contents before it are read, for
 * their checksum. */
int text_files_go(struct text_files *t, const struct text_place *place,
                  const struct events *events, struct err *err);

/* Fills the next block. Any thread may call this, one at a time. b->rc is what is wrong behind the
 * pieces. The block's memory is reused; text_block_free frees it. */
void text_files_read(struct text_files *t, struct text_block *b);
void text_block_free(struct text_block *b);

/* How the text of a piece is found (text_rows.h). */
struct text_reading text_files_reading(const struct text_files *t, size_t file);

/* The name of a file for sentences; whether any is standard input; bytes of all files together (0:
 * unknown), and how many of them have been read; a hash of what is read: names, sizes and times of
 * all files, and how they are read. */
const char *text_files_name(const struct text_files *t, size_t file);
int         text_files_piped(const struct text_files *t);
uint64_t    text_files_bytes(const struct text_files *t);
uint64_t    text_files_done(const struct text_files *t);
uint64_t    text_files_hash(const struct text_files *t);

/* The CRC32C of the contents of all files so far. */
uint32_t text_files_sum(const struct text_files *t);
