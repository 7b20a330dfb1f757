/* row_file.h: reads text files as rows of fields. There are four formats: tab-separated without
 * quoting (a double quote is a character); comma-separated with RFC 4180 quoting; plain lines;
 * and JSON objects, one per line or all in one list, in any layout.
 *
 * Errors of one file are reported here with file and line: a NUL byte, invalid UTF-8, a quote
 * that is never closed, a row that is too long. A file that is not text is refused by its
 * format's name (data/file/file_kind.h).
 *
 * A byte order mark at the beginning, \r before \n, and empty lines are skipped. The last line
 * may lack its newline. If the first line ends with \r alone, all lines do. */
#pragma once

#include "data/file/file_kind.h"
#include "data/file/unpack.h"

enum row_kind { ROWS_TSV, ROWS_CSV, ROWS_LINES, ROWS_JSON };
enum { ROW_MAX_FIELDS = 1024, ROW_MAX_BYTES = 64 << 20 };

/* An open file and its current row. Callers read only path, line and n_fields. */
struct row_file {
    const char   *path;     // borrowed
    size_t        line;     // first line of the current row, from 1
    size_t        n_fields; // fields of the current row, at least 1
    FILE         *f;
    enum row_kind kind;
    size_t        at;       // number of the line being read, from 1
    char         *text;
    size_t        n, cap;
    size_t        start[ROW_MAX_FIELDS]; // offset of each field in text
    int           blank;                 // the current row is an empty line
    int           returns;               // lines end with \r
    size_t        most;                  // bytes of a row; ROW_MAX_BYTES, or what a caller sets
    const char   *why;                   // end of the sentence about a row over `most`
    enum { LIST_NONE, LIST_BEGINS, LIST_GOES_ON, LIST_ENDED } list; // of ROWS_JSON
    struct unpack *packed;  // NULL: the file is not packed; it belongs to `f`
};

/* Opens a file, which may be packed by gzip or zstd. Caller closes r, also after an error. */
int  row_file_open(struct row_file *r, const char *path, enum row_kind kind, struct err *err);
/* Opens a stream that is at its beginning and can be rewound. It belongs to r from now on, also
 * after an error. packed: what unpack_open gave with it, or NULL. The format of its contents is not
 * checked. */
int  row_file_open_stream(struct row_file *r, FILE *f, struct unpack *packed, const char *path,
                          enum row_kind kind, struct err *err);

/* The beginning of a text file. */
struct row_head {
    size_t n;              // bytes of text
    size_t at;             // offset of the first byte behind a byte order mark and blanks
    char   text[4096 + 1]; // 0 ends it
};
/* Reads the beginning of a stream of unpack_open, and refuses contents of another format than text,
 * for the use `want`. The stream is rewound. */
int  row_file_head(struct row_head *head, FILE *f, const struct unpack *packed, const char *path,
                   enum file_want want, struct err *err);
void row_file_close(struct row_file *r);

/* Reads the next row. Returns 1, 0 at the end, or -errno with a sentence. Memory is that of the
 * longest row. */
int row_file_next(struct row_file *r, struct err *err);

/* Returns rc, an error in a row; or the error of a packed file that is corrupt, since that may be
 * what is wrong with the row, and only the end of the file shows it. */
int row_file_explain(struct row_file *r, int rc, struct err *err);

/* Returns field i, which is valid until the next row_file_next. It contains no NUL. */
const char *row_file_field(const struct row_file *r, size_t i);
