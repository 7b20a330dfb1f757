/* library.h: a shared library that is not linked: its calls are found when it is first needed, so
 * that a program that never needs it runs where it is not installed. */
#pragma once

#include "data/base/err.h"

struct library {
    const char *file;       // libNAME.so.VERSION
    const char *name, *get; // in "NAME is not here (the loader's reason): GET"
    const char *lacking;    // in "FILE has no CALL: LACKING"
    int         global;     // its symbols are for what it loads itself, too
};

struct library_call { const char *name; size_t at; }; // at: where in the table its pointer goes

/* Open it, for good, and find its calls. -ENOENT and a sentence where it is not here or lacks one:
 * then the table is of no use. */
int library_load(const struct library *l, const struct library_call *calls, size_t n, void *table,
                 struct err *err);
