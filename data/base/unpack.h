/* unpack.h: reads a file that may be packed by gzip or zstd as a stream of its contents. Its first
 * bytes say which, not its name. Several members or frames in one file are one text, as zcat and
 * zstdcat have it. */
#pragma once

#include "data/base/err.h"

struct unpack; // the state of a packed file; it belongs to the stream

/* Opens a regular file for reading. The caller closes *out with fclose. It can be rewound. *packed
 * becomes NULL if the file is not packed. */
int unpack_open(FILE **out, struct unpack **packed, const char *path, struct err *err);

/* Returns 0, or the error that ended the stream: a read error, or a file that is corrupt or cut
 * off. The stream itself only says that it failed. `u` may be NULL. */
int unpack_failed(const struct unpack *u, struct err *err);
