/* own_kind.h: which kind of rows a user's file has, and whether its delimiter is the kind's. */
#pragma once

#include "data/task/row_file.h"

/* Returns the kind of a file by the end of its name, before .gz or .zst, or -1. */
int own_kind_named(const char *path);
/* *kind: the same; of standard input, which has no name, by its beginning. */
int own_kind(int *kind, const char *path, struct err *err);

/* Refuses a file whose first line has another delimiter: any, if it lacks the file's own one;
 * otherwise one that gives the missing column `name`. Failures to read are reported elsewhere. */
int own_kind_delimiter(const char *path, enum row_kind kind, const char *name, struct err *err);
