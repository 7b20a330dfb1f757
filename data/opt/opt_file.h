/* opt_file.h: options in a file, which --config reads and `report RUN --config` writes. A line
 * holds one option:
 *   name = value        # or: name value
 * The names are the long names of the command line. A flag is its name alone, or with 1 or 0. A
 * comment begins with # at the beginning of a line or a word. A value in double quotes may begin
 * or end with blanks and contain #. Inside the quotes, \" and \\ stand for a quote and a
 * backslash. */
#pragma once

#include "data/base/err.h"

/* Receives one option. value is NULL if the name stood alone. */
typedef int opt_file_option(void *ctx, const char *name, const char *value, struct err *err);

/* Calls `each` for every option of the file, in order. Returns 0, or misuse if the file is not a
 * regular file, is empty, too large or cut off (its last line has no newline), or has a
 * malformed line. If `each` refuses an option, its sentence gets the file and the line in front. */
int opt_file_each(const char *path, opt_file_option *each, void *ctx, struct err *err);

/* Writes one line, from which opt_file_each reads the same option. The value must not contain
 * control characters. */
void opt_file_write(FILE *out, const char *name, const char *value);
