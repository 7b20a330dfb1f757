/* library.h: a shared library that is loaded when it is first needed, not linked. So the program
 * also runs on machines without it. */
#pragma once

#include "data/base/err.h"

struct library {
    const char *file;       // libNAME.so.VERSION
    const char *name, *get; // in "NAME is not here (the loader's reason): GET"
    const char *lacking;    // in "FILE has no CALL: LACKING"
    int         global;     // true: libraries that it loads may use its symbols
};

struct library_call { const char *name; size_t at; }; // at: offset of its pointer in the table

/* Load it, for the life of the process, and fill the table with pointers to n calls. 0, or -ENOENT
 * and a sentence if the library or a call is missing. */
int library_load(const struct library *l, const struct library_call *calls, size_t n, void *table,
                 struct err *err);
