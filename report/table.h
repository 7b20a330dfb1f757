/* table.h: what a report's sections are made of, before they are rendered (text.c, page.c).
 *
 * A list is an array of { what, value, more }: texts. A table is
 *
 *     { heads: [text], rows: [ { cells: [text], parts: [part], mark: number } ] }
 *
 * A head that begins with # stands over figures, one with ~ is for pages alone. A cell without a
 * figure is "". A row of one cell is a heading over the rows below it. The parts of a row are its
 * bar: { name, colour, letter, value }. The colour is a class of page.css, the letter stands for it
 * where there are no colours. */
#pragma once

#include "report/format.h"

struct column {
    const char *head, *key; // of the row that it shows
    figure_of  *as;         // NULL: it is a text
    const char *and;        // of a second figure: "3 + 4"
    size_t      most;       // of a text's bytes: it is its end that tells; 0: any number
};

/* Gives a row its parts, with table_part; item: what it was made of. */
typedef void table_bars(json_t *row, const json_t *item);

/* A table with a row for each of the items; one with the member `heading` is a heading. columns end
 * with { 0 }; bars may be NULL. Caller json_decref()s. */
json_t *table_made(const struct column *columns, table_bars *bars, const json_t *items);
void    table_part(json_t *row, const char *name, const char *colour, const char *letter,
                   double value);

/* The names and the colours of a table's parts, each once: an array of parts. */
json_t *table_legend(const json_t *table);
double  table_longest(const json_t *table); // its longest bar; 0: there is none
double  table_bar(const json_t *row);       // the parts of a row, added up
