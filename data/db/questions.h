/* questions.h: the queries that reports put to a run's database: the files of data/db/sql, which
 * are compiled into the program. Each file begins with a comment. Its first line says which
 * question the query answers; the other lines give the units and the meaning of the columns. The
 * rest is one SELECT over the tables and views of run.db (docs/measurements.md). */
#pragma once

#include <stddef.h>

struct question {
    const char *name, *sql; // the whole file with its comment
    int         one;        // the answer has at most one row
};

/* Returns the i-th query, in the order of a report, or NULL past the last. */
const struct question *question_at(size_t i);
/* Returns the query of this name, or NULL. */
const struct question *question_find(const char *name);
