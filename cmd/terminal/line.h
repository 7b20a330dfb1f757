/* line.h: a line that quotes what somebody else wrote: names of files and columns, labels, what a
 * drive calls itself. All that is printed and is not siTrain's own words goes through here. */
#pragma once

#include <jansson.h>
#include <stdio.h>

/* One line, without control characters (visible.h); the newline is added. */
void say_line(FILE *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Text of several lines; tabs and newlines stay. */
void say_text(FILE *out, const char *text);
/* A JSON value on stdout for --json, in ASCII, without control characters. flags: jansson's. */
void say_json(const json_t *value, size_t flags);
