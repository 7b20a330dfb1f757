/* visible.h: makes text of unknown origin (from a file, an option, a model) safe for a terminal.
 * Control characters of C0 and C1, DEL, characters that nobody sees or that change the direction of
 * a text (U+202E), and bytes that are not UTF-8 are shown as \x1b and the like. Newline, carriage
 * return and tab become the two characters \n, \r and \t. */
#pragma once

#include <stddef.h>
#include <stdio.h>

/* Writes text[0..n) into to[0..size), with a 0 behind it. Only whole characters are written, as
 * many as there is room for. Returns the number of bytes before the 0. */
size_t visible_text(char *to, size_t size, const char *text, size_t n);

/* Writes the text to a file in the form of visible_text, except for the control characters in
 * `keep`, which stay as they are. It writes in blocks, because standard error has no buffer. Failed
 * writes show in ferror(out). */
void visible_write(FILE *out, const char *text, size_t n, const char *keep);

/* Prints words from column `from` on, broken after column `width` and at newlines; `at` columns are
 * printed already. Of a word longer than a line, like a path, the end is printed. */
void visible_words(FILE *out, const char *text, int at, int from, int width);

/* Returns whether a spreadsheet would take the text for a formula: it begins with = + - or @ and
 * is not a number. In a table, the caller puts an apostrophe before it. */
int visible_formula(const char *text);
