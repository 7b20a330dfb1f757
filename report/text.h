/* text.h: what reports in a terminal are made of: lines of at most 80 columns, bars of characters.
 */
#pragma once

#include "data/base/json.h"

enum { TEXT_BAR = 24 };

struct text { FILE *out; int colour; };

void text_heading(const struct text *t, const char *words);
/* `n` letters, in their colour; and as many of `width` as `share`, in [0, 1], says. */
void text_letters(const struct text *t, char letter, int n);
void text_bar(const struct text *t, char letter, double share, int width);
/* Of a path (or what is as long) its end, which tells; *cut: whether there was more. */
const char *text_path_end(const char *path, size_t *cut);
/* Broken between words, at 80 columns, the lines after the first behind `indent` blanks. */
void text_wrapped(const struct text *t, const char *text, int indent);

void text_one(const struct text *t, const json_t *report); // all of a run
