/* rows.h: text files as rows of fields: tab-separated without quoting (a double quote is a
 * character), comma-separated with RFC 4180 quoting, or plain lines. What is one file's damage is
 * said here, with file and line: a NUL byte, invalid UTF-8, a quote that is never closed, a row
 * that is too long. A byte order mark at the beginning, \r before \n, and empty lines are nobody's
 * data and left out; the last line may lack its newline. */
#ifndef DATA_TASK_ROWS_H
#define DATA_TASK_ROWS_H

#include "data/base/err.h"

#include <stddef.h>

enum rows_kind { ROWS_TSV, ROWS_CSV, ROWS_LINES };
enum { ROWS_MAX_FIELDS = 1024, ROWS_MAX_BYTES = 64 << 20 }; // of one row

struct rows; // an open file and its current row

int  rows_open(struct rows **out, const char *path, enum rows_kind kind, struct err *err);
void rows_close(struct rows *r); // NULL is fine

/* The next row: 1; 0 at the end; negative: an error. Memory is the longest row's. */
int rows_next(struct rows *r, struct err *err);

const char *rows_path(const struct rows *r);
size_t      rows_line(const struct rows *r);            // where the current row begins, from 1
size_t      rows_fields(const struct rows *r);          // at least 1
const char *rows_field(const struct rows *r, size_t i); // lent until the next rows_next; no NUL
                                                        // inside

#endif
