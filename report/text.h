/* text.h: reports in a terminal: at most 80 columns, bars and curves of characters. */
#pragma once

#include "data/json/json.h"

enum { TEXT_WIDTH = 79 }; // columns

struct text { FILE *out; int colour; };

void text_colour(const struct text *t, const char *code); // "0": none any more
void text_heading(const struct text *t, const char *words);
void text_letters(const struct text *t, const char *letter, int n); // in its colour

void text_list(const struct text *t, const json_t *list); // (table.h)
/* plain: all of it, however wide, without an indent. */
void text_table(const struct text *t, const json_t *table, int plain);
/* The loss along the run, as far as it is a number; 0: there is none. t NULL: only say so. */
int text_curve(const struct text *t, const json_t *report);
