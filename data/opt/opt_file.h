/* opt_file.h: options in a file, as --config takes them and `report RUN --config` writes them: a
 * line each, name = value        # or: name value with the long names of the command line; a flag
 * is its name alone, or with 1 or 0. A comment begins with # where a line or a word would. A value
 * in double quotes may begin or end with blanks and hold a #; in them
 * \" and \\ stand for a quote and a backslash. */
#pragma once

#include "data/base/err.h"

/* One option; value NULL: the name stood alone. */
typedef int opt_file_option(void *ctx, const char *name, const char *value, struct err *err);

/* Call `each` with every option of the file, in its order. 0, or misuse: what is no regular file,
 * is empty, large or cut off (its last line has no end), lines that are none of the above; and what
 * `each` refuses, its sentence with the file and the line before it. */
int opt_file_each(const char *path, opt_file_option *each, void *ctx, struct err *err);

/* One line, which opt_file_each reads back as it was. No value has control characters. */
void opt_file_write(FILE *out, const char *name, const char *value);
