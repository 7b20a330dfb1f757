/* questions.h: what reports ask a run's database: the files of data/db/sql, which are part of the
 * program. Each begins with a comment, whose first line says what it answers, the others units and
 * what its columns mean; the rest is one SELECT over the tables and views of run.db
 * (docs/measurements.md). */
#pragma once

#include <stddef.h>

struct question {
    const char *name, *sql; // the whole file, comment and all
    int         one;        // it is answered by one row, or by none
};

/* The i-th, in the order of a report; NULL past the last. */
const struct question *question_at(size_t i);
/* The one of this name, or NULL. */
const struct question *question_find(const char *name);
