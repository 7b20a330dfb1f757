/* rows.c: reads a text file one row at a time, byte by byte: one pass splits, unquotes and counts
 * lines. The fields of a row stand one after the other in one buffer, each ended by a NUL, so that
 * growing the buffer moves no pointer that anybody holds. */
#include "data/task/rows.h"

#include "data/base/file.h"
#include "data/base/utf8.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct rows {
    FILE          *f;
    char          *path;
    enum rows_kind kind;
    size_t         at;   // the line that is being read, from 1
    size_t         line; // where the current row began
    char          *text;
    size_t         n, cap;
    size_t         start[ROWS_MAX_FIELDS]; // of each field in text
    size_t         n_fields;
    int            blank; // the current row is an empty line
};

/* A byte order mark is not text. */
static int rows_skip_mark(struct rows *r, struct err *err)
{
    unsigned char mark[3];

    if (fread(mark, 1, sizeof mark, r->f) == sizeof mark &&
        memcmp(mark, "\xEF\xBB\xBF", sizeof mark) == 0)
        return 0;
    if (fseek(r->f, 0, SEEK_SET))
        return err_set(err, -errno, "read %s: %s", r->path, strerror(errno));
    return 0;
}

static int rows_grow(struct rows *r, struct err *err)
{
    size_t cap = r->cap ? 2 * r->cap : 4096;
    char  *text;

    if (cap > ROWS_MAX_BYTES)
        return err_misuse(err, "%s:%zu: this row has more than %d bytes", r->path, r->line,
                          ROWS_MAX_BYTES);
    text = realloc(r->text, cap);
    if (!text)
        return err_set(err, -ENOMEM, "%s:%zu: no memory for a row of %zu bytes", r->path, r->line,
                       cap);
    r->text = text;
    r->cap = cap;
    return 0;
}

int rows_open(struct rows **out, const char *path, enum rows_kind kind, struct err *err)
{
    struct rows *r = calloc(1, sizeof *r);
    uint64_t     size;
    int          fd = -1, rc;

    *out = NULL;
    if (!r)
        return err_set(err, -ENOMEM, "no memory to open %s", path);
    r->kind = kind;
    r->at = 1;
    r->path = strdup(path);
    if (r->path)
        rc = file_open_read(path, &fd, &size, err);
    else
        rc = err_set(err, -ENOMEM, "no memory to open %s", path);
    if (rc)
        goto out;
    r->f = fdopen(fd, "rb");
    if (!r->f) {
        rc = err_set(err, -errno, "open %s: %s", path, strerror(errno));
        close(fd);
        goto out;
    }
    rc = rows_skip_mark(r, err);
    if (!rc)
        rc = rows_grow(r, err); // so that an empty first field, too, stands somewhere
out:
    if (rc)
        rows_close(r);
    else
        *out = r;
    return rc;
}

void rows_close(struct rows *r)
{
    if (!r)
        return;
    if (r->f)
        fclose(r->f);
    free(r->path);
    free(r->text);
    free(r);
}

const char *rows_path(const struct rows *r)
{
    return r->path;
}

size_t rows_line(const struct rows *r)
{
    return r->line;
}

size_t rows_fields(const struct rows *r)
{
    return r->n_fields;
}

const char *rows_field(const struct rows *r, size_t i)
{
    assert(i < r->n_fields);
    return r->text + r->start[i];
}

static int rows_put(struct rows *r, int c, struct err *err)
{
    if (c == 0)
        return err_misuse(err, "%s:%zu: a NUL byte, which no text has", r->path, r->at);
    if (r->n == r->cap) {
        int rc = rows_grow(r, err);

        if (rc)
            return rc;
    }
    r->text[r->n++] = (char)c;
    return 0;
}

/* Begin the next field where the text ends now. */
static int rows_begin_field(struct rows *r, struct err *err)
{
    if (r->n_fields == ROWS_MAX_FIELDS)
        return err_misuse(err, "%s:%zu: more than %d columns", r->path, r->line, ROWS_MAX_FIELDS);
    r->start[r->n_fields++] = r->n;
    return 0;
}

/* End the current field: it must be UTF-8. */
static int rows_end_field(struct rows *r, struct err *err)
{
    size_t               from = r->start[r->n_fields - 1], n = r->n - from;
    const unsigned char *p = (const unsigned char *)r->text + from;

    for (size_t i = 0; i < n;) {
        int len = utf8_length(p + i, n - i);

        if (len <= 0)
            return err_misuse(err, "%s:%zu: column %zu is not valid UTF-8 (byte %zu of it, 0x%02x)",
                              r->path, r->line, r->n_fields, i + 1, p[i]);
        i += (size_t)len;
    }
    if (r->n == r->cap) {
        int rc = rows_grow(r, err);

        if (rc)
            return rc;
    }
    r->text[r->n++] = 0;
    return 0;
}

/* Without its last \r, if one stands before the end of the line. */
static void rows_drop_return(struct rows *r)
{
    if (r->n > r->start[r->n_fields - 1] && r->text[r->n - 1] == '\r')
        r->n--;
}

static int rows_read_line(struct rows *r, struct err *err)
{
    int c, rc = 0;

    while (!rc && (c = getc_unlocked(r->f)) != EOF && c != '\n') {
        if (c == '\t' && r->kind == ROWS_TSV) {
            rc = rows_end_field(r, err);
            if (!rc)
                rc = rows_begin_field(r, err);
        } else {
            rc = rows_put(r, c, err);
        }
    }
    if (rc)
        return rc;
    r->at++;
    rows_drop_return(r);
    r->blank = r->n == 0;
    return rows_end_field(r, err);
}

/* What follows a closing quote, but for a comma and the line's end: \r before that end, or nothing.
 */
static int rows_after_quote(struct rows *r, int c, struct err *err)
{
    int next = c == '\r' ? getc_unlocked(r->f) : c;

    if (c == '\r' && (next == '\n' || next == EOF)) {
        if (next == '\n')
            ungetc(next, r->f);
        return 0;
    }
    return err_misuse(err,
                      "%s:%zu: text after the closing double quote of column %zu: a quoted field "
                      "ends at a comma or the line's end, a quote in it is doubled",
                      r->path, r->at, r->n_fields);
}

/* RFC 4180; beyond it, a quote inside a field that does not begin with one is a character. */
static int rows_read_csv(struct rows *r, struct err *err)
{
    enum { BEGIN, BARE, QUOTED, CLOSED } s = BEGIN;

    for (;;) {
        int c = getc_unlocked(r->f), rc = 0;

        if (s == QUOTED && c == EOF)
            return err_misuse(err,
                              "%s:%zu: in the row that begins here a double quote is opened and "
                              "never closed",
                              r->path, r->line);
        if (c == '\n' || c == EOF)
            r->at++;
        if (s != QUOTED && (c == '\n' || c == EOF))
            break;
        if (s == QUOTED && c == '"') {
            s = CLOSED;
        } else if (s == BEGIN && c == '"') {
            s = QUOTED;
        } else if (s != QUOTED && c == ',') {
            s = BEGIN;
            rc = rows_end_field(r, err);
            if (!rc)
                rc = rows_begin_field(r, err);
        } else if (s == CLOSED && c != '"') {
            rc = rows_after_quote(r, c, err);
        } else {
            s = s == BEGIN ? BARE : s == CLOSED ? QUOTED : s; // CLOSED: the quote was doubled
            rc = rows_put(r, c, err);
        }
        if (rc)
            return rc;
    }
    if (s == BARE)
        rows_drop_return(r);
    r->blank = r->n == 0 && s != CLOSED;
    return rows_end_field(r, err);
}

int rows_next(struct rows *r, struct err *err)
{
    do {
        int c = getc_unlocked(r->f), rc;

        if (c == EOF && ferror(r->f))
            return err_set(err, -EIO, "read %s: %s", r->path, strerror(EIO));
        if (c == EOF)
            return 0;
        ungetc(c, r->f);
        r->line = r->at;
        r->n = r->n_fields = 0;
        rc = rows_begin_field(r, err);
        if (!rc)
            rc = r->kind == ROWS_CSV ? rows_read_csv(r, err) : rows_read_line(r, err);
        if (!rc && ferror(r->f))
            rc = err_set(err, -EIO, "read %s near line %zu: %s", r->path, r->at, strerror(EIO));
        if (rc)
            return rc;
    } while (r->blank);
    return 1;
}
