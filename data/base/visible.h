/* visible.h: text of a stranger (a file's, an option's, a model's) as a terminal may get it: what
 * would speak to the terminal is shown as what it is. C0 and DEL, C1 and bytes that are no UTF-8
 * become \x1b and the like, and \n, \r and \t become these two characters. */
#pragma once

#include <stddef.h>
#include <stdio.h>

/* text[0..n) into to[0..size), with a 0 behind it: as many whole characters as there is room for.
 * keep: control characters that stay as they are. Returns the bytes before the 0. */
size_t visible_text(char *to, size_t size, const char *text, size_t n, const char *keep);

/* The same to a file, in blocks: standard error has no buffer. What could not be written is in its
 * ferror. */
void visible_write(FILE *out, const char *text, size_t n, const char *keep);

/* Whether a spreadsheet would take it for a formula: it begins with = + - or @ and is no number. In
 * a table it gets an apostrophe before it. */
int visible_formula(const char *text);
