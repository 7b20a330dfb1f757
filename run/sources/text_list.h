/* text_list.h: the list of files that texts are read from. A folder stands for all files below it,
 * in byte order of their paths; hidden and empty files are left out. */
#pragma once

#include "data/base/err.h"

struct text_file {
    char    *path; // "-": standard input
    int      found; // in a folder, rather than named
    size_t   of;    // the number of the name that it was found by
    uint64_t size, time_ns; // 0: unknown
    uint64_t changed_ns;    // of the last change that the kernel saw: nobody can set this time
};

struct text_list {
    struct text_file *file;
    size_t            n, cap;
    uint64_t          bytes; // of all files together
};

/* Makes the list. Returns misuse for a name that leads to nothing, and a folder without files.
 * written: up to two files that will be written, or NULLs. A folder that contains one is refused.
 * The caller frees the list, also after an error. */
enum { TEXT_WRITTEN = 2 };
int  text_list_make(struct text_list *out, const char *const *names, size_t n,
                    const char *const written[TEXT_WRITTEN], struct err *err);
void text_list_free(struct text_list *l);

/* How sentences name an input: "-" is standard input. */
const char *text_list_shown(const char *name);

/* Returns a hash of the names, sizes and times of all files. */
uint64_t text_list_hash(const struct text_list *l);
