/* run_files.h: the names that files and folders have in a run's folder: the one list of what is a
 * run's own there. */
#pragma once

struct run_file {
    const char *pattern; // '*': any characters, '#': a number
    const char *what;    // "the journal", for a sentence
};

/* The row of a name in RUN that a run has, or may get later; NULL: no run has it. */
const struct run_file *run_file_find(const char *name);
