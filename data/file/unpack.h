/* unpack.h: reads the contents of a file, packed by gzip or zstd or not. Its first bytes say which,
 * not its name. Several members or frames in one file are one text, as zcat and zstdcat have it. */
#pragma once

#include "data/base/err.h"

struct unpack; // the state of a file that is read

/* Returns whether a name ends in `end`, or in `end` and .gz or .zst, in any case of letters. */
int unpack_named(const char *path, const char *end);

/* How sentences name a path: "-" is standard input. */
const char *unpack_shown(const char *path);

/* Begins to read a regular file, or standard input if path is "-". The caller calls unpack_end. */
int  unpack_begin(struct unpack **out, const char *path, struct err *err);
void unpack_end(struct unpack *u); // accepts NULL
/* Reads the next `most` bytes of the contents. *n is less only at the end. */
int  unpack_read(struct unpack *u, char *to, size_t most, size_t *n, struct err *err);
/* Returns "gzip" or "zstd", or NULL if the file is not packed. */
const char *unpack_format(const struct unpack *u);
/* How many bytes of the file have been used, as it lies on the drive, of how many (0: unknown). */
void unpack_progress(const struct unpack *u, uint64_t *done, uint64_t *total);
/* The CRC32C of the contents read so far. It continues the sum of unpack_sum_begin (or 0). */
uint32_t unpack_sum(const struct unpack *u);
void     unpack_sum_begin(struct unpack *u, uint32_t sum);

/* Makes a stream of the contents from a file of which nothing was read. The caller closes it with
 * fclose, which ends u. It can be rewound, unless it is standard input. */
int unpack_stream(FILE **out, struct unpack *u, struct err *err);

/* Opens a regular file as a stream, for who reads it more than once: standard input is refused,
 * unless it is spooled (stdin_spool.h). The caller closes *out with fclose. It can be rewound.
 * *packed becomes NULL if the file is not packed; otherwise it belongs to the stream. */
int unpack_open(FILE **out, struct unpack **packed, const char *path, struct err *err);

/* Returns 0, or the error that ended the reading: a read error, or a file that is corrupt or cut
 * off. A stream itself only says that it failed. `u` may be NULL. */
int unpack_failed(const struct unpack *u, struct err *err);
