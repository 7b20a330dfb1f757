/* row_list.h: the files of rows that names stand for. A folder stands for all files below it, in
 * byte order of their paths. Each name is a *source*: a fine-tuning counts the rows of each. */
#pragma once

#include "data/opt/opt_row.h"
#include "run/sources/text_list.h"

/* item[0..n): paths. All zeros is a list without files. */
struct row_list {
    char             **item;
    size_t             n;
    struct opt_strings names; // borrowed
    struct text_list   list;
};

/* Finds the files. Close the list after use, also after an error. Misuse: a name that leads to
 * nothing, a folder without files. */
int  row_list_open(struct row_list *l, const struct opt_strings *names, struct err *err);
void row_list_close(struct row_list *l);

/* The source that a file belongs to: the number of its name. */
size_t row_list_source(const struct row_list *l, size_t file);
/* The files for a sentence: the one, or the first one and the number of the others. Returns out. */
const char *row_list_title(char *out, size_t size, const struct row_list *l);
/* The paths, one a line, malloced. NULL: no memory. */
char *row_list_text(const struct row_list *l);
