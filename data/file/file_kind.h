/* file_kind.h: recognizes the kind of a file by its contents, so that a picture is not read as
 * text, or a text as token ids. A format that siTrain does not read is refused by its name. The
 * sentence has the command that converts such a file. */
#pragma once

#include "data/base/watch.h"

/* Magic numbers of llm.c's token files: GPT-2 (uint16 ids) and Llama 3 (uint32 ids). */
enum { LLMC_MAGIC_U16 = 20240520, LLMC_MAGIC_U32 = 20240801 };

enum file_kind {
    FILE_TEXT,   // valid UTF-8 without NUL bytes
    FILE_JSON,   // a text that begins as a list or an object of JSON
    FILE_TOKENS, // token ids in llm.c's format, by its header
    FILE_EMPTY,
    FILE_FORMAT, // a known format: compressed, a picture, a model, UTF-16, ...
    FILE_BYTES,  // anything else
};

/* What the reader wants the file to be. FILE_FOR_DATA is a text or token ids. */
enum file_want { FILE_FOR_DATA, FILE_FOR_TEXT, FILE_FOR_PROMPTS, FILE_FOR_ROWS, FILE_FOR_CHAT,
                 FILE_FOR_OPTIONS, FILE_FOR_JSON, FILE_FOR_TOKENIZER, FILE_FOR_TEMPLATE };

struct file_look {
    enum file_kind            kind;
    const struct file_format *format;  // of FILE_JSON and FILE_FORMAT; else NULL
    unsigned                  width;   // of FILE_TOKENS: bytes of an id
    int                       guessed; // UTF-16 without a byte order mark, or uint16 ids < 256
    // of FILE_BYTES: the first byte that no text has, its offset (from 0) and line (from 1)
    unsigned char byte;
    uint64_t      at, line;
    int           words; // it looks like a text in another encoding, such as Latin-1
};

/* Reads the whole file to find its kind. A text must be valid to its last byte. Anything but a
 * regular file is refused. */
int file_kind_look(struct file_look *out, const char *path, const struct watch *watch,
                   struct err *err);

/* Finds the kind of contents that arrive piece by piece, from the first n bytes. size: of all
 * contents, or UINT64_MAX if it is unknown. What begins as a text is taken for one. */
void file_kind_head(struct file_look *out, const char *bytes, size_t n, uint64_t size);
enum { FILE_HEAD_BYTES = 4096 }; // as many are looked at
/* Opens a file for that. *n: the bytes of head that were read. Anything but a regular file is
 * refused. */
int file_kind_begins(struct file_look *out, char head[FILE_HEAD_BYTES], size_t *n,
                     const char *path, struct err *err);

/* Returns whether it is a packed file that unpack.h reads. */
int file_kind_is_packed(const struct file_look *look);

/* Refuses the file for the use `want`, whatever its kind. Always returns misuse. */
int file_kind_refuse(const struct file_look *look, const char *path, enum file_want want,
                     struct err *err);
/* Refuses the contents of a packed file, as file_kind_refuse does. format: "gzip" or "zstd". */
int file_kind_refuse_packed(const struct file_look *look, const char *path, const char *format,
                            enum file_want want, struct err *err);

/* Writes the command that makes UTF-8 of a file of rows, if it is Latin-1. Without a name, as for
 * standard input (NULL), it is a filter. */
void file_kind_recode(char *out, size_t size, const char *path);

/* Refuses the contents of a file if their beginning is of a known format other than text. Returns 0
 * if they may be what `want` says. */
int file_kind_check_bytes(const char *bytes, size_t n, const char *path, enum file_want want,
                          struct err *err);

/* Refuses a file where a folder is wanted. Returns 0 for a folder, and if nothing has this name. */
int file_kind_expect_folder(const char *path, enum file_want want, struct err *err);
