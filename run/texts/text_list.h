/* text_list.h: the list of files that texts or rows are read from. A folder stands for all files
 * below it, in byte order of their paths; hidden and empty files are left out. Each name is a
 * *source*: a fine-tuning counts the rows of each. */
#pragma once

#include "data/base/err.h"

struct text_file {
    char    *path; // "-": standard input
    int      found; // in a folder, rather than named
    size_t   of;    // its source: the number of the name that it was found by
    uint64_t size, time_ns; // 0: unknown
    uint64_t changed_ns;    // of the last change that the kernel saw: nobody can set this time
};

/* All zeros is a list without files. */
struct text_list {
    struct text_file  *file;
    char             **item; // their paths
    size_t             n, cap;
    uint64_t           bytes; // of all files together
    const char *const *name;  // borrowed
    size_t             n_names;
};

/* Makes the list. Returns misuse for a name that leads to nothing, and a folder without files.
 * written: up to two files that will be written, or NULLs; or NULL. A folder that contains one of
 * them is refused. The caller frees the list, also after an error. */
enum { TEXT_WRITTEN = 2 };
int  text_list_make(struct text_list *out, const char *const *names, size_t n,
                    const char *const written[TEXT_WRITTEN], struct err *err);
void text_list_free(struct text_list *l);

/* How many of the names are "-", standard input, which can be read once. */
size_t text_list_inputs(const char *const *names, size_t n);
/* The files for a sentence: the one, or the first one and the number of the others. Returns out. */
const char *text_list_title(char *out, size_t size, const struct text_list *l);
/* The paths, one a line, malloced. NULL: no memory. */
char *text_list_text(const struct text_list *l);

/* Returns a hash of the names, sizes and times of all files. */
uint64_t text_list_hash(const struct text_list *l);
