/* row_file.h: text files as rows of fields: tab-separated without quoting (a double quote is a
 * character), comma-separated with RFC 4180 quoting, plain lines, or objects of JSON, one a line or
 * all in one list, however it is laid out. What is one file's damage is said here, with file and
 * line: a NUL byte, invalid UTF-8, a quote that is never closed, a row that is too long. A byte
 * order mark at the beginning, \r before \n, and empty lines are nobody's data and left out; the
 * last line may lack its newline. Where the first line ends with \r alone, every line does. What is
 * no text at all is refused by its name (data/base/file_kind.h). */
#pragma once

#include "data/base/err.h"

enum row_kind { ROWS_TSV, ROWS_CSV, ROWS_LINES, ROWS_JSON };
enum { ROW_MAX_FIELDS = 1024, ROW_MAX_BYTES = 64 << 20 };

/* An open file and its current row. Others read path, line and n_fields. */
struct row_file {
    const char   *path;     // borrowed
    size_t        line;     // where the current row began, from 1
    size_t        n_fields; // of it, at least 1
    FILE         *f;
    enum row_kind kind;
    size_t        at;       // the line that is being read, from 1
    char         *text;
    size_t        n, cap;
    size_t        start[ROW_MAX_FIELDS]; // of each field in text
    int           blank;                 // the current row is an empty line
    int           returns;               // lines end with \r
    enum { LIST_NONE, LIST_BEGINS, LIST_GOES_ON, LIST_ENDED } list; // of JSON
};

/* Caller closes, also after an error. */
int  row_file_open(struct row_file *r, const char *path, enum row_kind kind, struct err *err);
void row_file_close(struct row_file *r);

/* The next row: 1; 0 at the end; negative: an error. Memory is the longest row's. */
int row_file_next(struct row_file *r, struct err *err);

/* Lent until the next row_file_next; no NUL inside. */
const char *row_file_field(const struct row_file *r, size_t i);
