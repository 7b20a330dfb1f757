/* file_kind.h: what a file is, said by its first bytes, so that nobody takes a picture for text, or
 * a text for token ids. Formats that are not read here are refused by their names, with the command
 * that makes of such a file what is wanted. */
#pragma once

#include "data/base/watch.h"

/* The numbers that begin llm.c's token files: for its GPT-2 (uint16) and its Llama 3 (uint32). */
enum { LLMC_MAGIC_U16 = 20240520, LLMC_MAGIC_U32 = 20240801 };

enum file_kind {
    FILE_TEXT,   // valid UTF-8 without NUL bytes
    FILE_JSON,   // a text that begins as a list or an object of JSON
    FILE_TOKENS, // llm.c's, by its header
    FILE_EMPTY,
    FILE_FORMAT, // one of the formats by name: compressed, a picture, a model, UTF-16, ...
    FILE_BYTES,  // anything else
};

/* What the reader of a file wants it to be; data: a text or token ids. */
enum file_want { FILE_FOR_DATA, FILE_FOR_TEXT, FILE_FOR_PROMPTS, FILE_FOR_ROWS, FILE_FOR_OPTIONS,
                 FILE_FOR_JSON, FILE_FOR_TOKENIZER };

struct file_look {
    enum file_kind            kind;
    const struct file_format *format;  // of FILE_JSON and FILE_FORMAT; else NULL
    unsigned                  width;   // of FILE_TOKENS: bytes of an id
    int                       guessed; // UTF-16 without a mark: uint16 ids below 256 look so, too
    // of FILE_BYTES: the first byte that no text has, its place from 0, its line from 1
    unsigned char byte;
    uint64_t      at, line;
    int           words; // it looks like a text in another encoding, as Latin-1
};

/* Look at a whole file: a text is one to its last byte. Anything but a regular file is refused. */
int file_kind_look(struct file_look *out, const char *path, const struct watch *watch,
                   struct err *err);

/* Refuse it for what is wanted, whatever kind it is. Always misuse. */
int file_kind_refuse(const struct file_look *look, const char *path, enum file_want want,
                     struct err *err);

/* Refuse an open file, or bytes that were read, whose beginning is of a known format other than
 * text: 0 where it may be what is wanted. */
int file_kind_check(int fd, uint64_t size, const char *path, enum file_want want, struct err *err);
int file_kind_check_bytes(const char *bytes, size_t n, const char *path, enum file_want want,
                          struct err *err);

/* Refuse a file that stands where a folder is wanted; 0 for a folder, and where nothing is. */
int file_kind_expect_folder(const char *path, enum file_want want, struct err *err);
