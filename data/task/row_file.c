/* row_file.c: reads a text file one row at a time, byte by byte: one pass splits, unquotes and
 * counts lines. The fields of a row stand one after the other in one buffer, each ended by a NUL,
 * so that growing the buffer moves no pointer that anybody holds. */
#include "data/task/row_file.h"

#include "data/base/file.h"
#include "data/base/grow.h"
#include "data/base/utf8.h"

#include <assert.h>
#include <unistd.h>

/* A byte order mark is not text. */
static int skip_mark(struct row_file *r, struct err *err)
{
    char mark[3];

    if (fread(mark, 1, sizeof mark, r->f) == sizeof mark &&
        memcmp(mark, "\xEF\xBB\xBF", sizeof mark) == 0)
        return 0;
    return fseek(r->f, 0, SEEK_SET)
               ? err_set(err, -errno, "read %s: %s", r->path, strerror(errno))
               : 0;
}

int row_file_open(struct row_file *r, const char *path, enum row_kind kind, struct err *err)
{
    uint64_t size;
    int      fd, rc = file_open_read(path, &fd, &size, err);

    *r = (struct row_file){ .path = path, .kind = kind, .at = 1 };
    if (!rc && !(r->f = fdopen(fd, "rb"))) {
        rc = err_set(err, -errno, "open %s: %s", path, strerror(errno));
        close(fd);
    }
    return rc ? rc : skip_mark(r, err);
}

void row_file_close(struct row_file *r)
{
    if (r->f)
        fclose(r->f);
    free(r->text);
}

const char *row_file_field(const struct row_file *r, size_t i)
{
    assert(i < r->n_fields);
    return r->text + r->start[i];
}

static int put(struct row_file *r, int c, struct err *err)
{
    if (r->n == ROW_MAX_BYTES)
        return err_misuse(err, "%s:%zu: this row has more than %d bytes", r->path, r->line,
                          ROW_MAX_BYTES);
    int rc = grow(&r->text, &r->cap, r->n + 1, 1, "bytes of a row", err);

    if (!rc)
        r->text[r->n++] = (char)c;
    return rc;
}

/* Begin the next field where the text ends now. */
static int field_begin(struct row_file *r, struct err *err)
{
    if (r->n_fields == ROW_MAX_FIELDS)
        return err_misuse(err, "%s:%zu: more than %d columns", r->path, r->line, ROW_MAX_FIELDS);
    r->start[r->n_fields++] = r->n;
    return 0;
}

/* End the current field: it must be UTF-8. */
static int field_end(struct row_file *r, struct err *err)
{
    size_t from = r->start[r->n_fields - 1], n = r->n - from;
    int    why;
    size_t valid = n ? utf8_valid(r->text + from, n, &why) : 0;

    if (valid < n)
        return err_misuse(err, "%s:%zu: column %zu is not valid UTF-8 (byte %zu of it, 0x%02x)",
                          r->path, r->line, r->n_fields, valid + 1,
                          (unsigned char)r->text[from + valid]);
    return put(r, 0, err);
}

/* What follows a closing quote, but for a comma and the line's end: \r before that end, or nothing.
 */
static int after_quote(struct row_file *r, int c, struct err *err)
{
    int next = c == '\r' ? getc_unlocked(r->f) : c;

    if (c == '\r' && (next == '\n' || next == EOF)) {
        if (next == '\n')
            ungetc(next, r->f);
        return 0;
    }
    return err_misuse(err, "%s:%zu: text after the closing double quote of column %zu: a quoted "
                      "field ends at a comma or the line's end, a quote in it is doubled", r->path,
                      r->at, r->n_fields);
}

/* With quotes it is RFC 4180; beyond it, a quote inside a field that does not begin with one is a
 * character. */
static int row_read(struct row_file *r, struct err *err)
{
    const int quotes = r->kind == ROWS_CSV;
    const int between = quotes ? ',' : r->kind == ROWS_TSV ? '\t' : EOF; // EOF: nothing
    enum { BEGIN, BARE, QUOTED, CLOSED } s = BEGIN;

    for (;;) {
        int c = getc_unlocked(r->f), end = c == '\n' || c == EOF, rc = 0;

        r->at += (size_t)end;
        if (s == QUOTED && c == EOF)
            return err_misuse(err, "%s:%zu: in the row that begins here a double quote is opened "
                              "and never closed", r->path, r->line);
        if (s != QUOTED && end)
            break;
        if (c == 0)
            return err_misuse(err, "%s:%zu: a NUL byte, which no text has", r->path, r->at);
        if (s == QUOTED && c == '"') {
            s = CLOSED;
        } else if (s == BEGIN && quotes && c == '"') {
            s = QUOTED;
        } else if (s != QUOTED && c == between) {
            s = BEGIN;
            rc = field_end(r, err);
            rc = rc ? rc : field_begin(r, err);
        } else if (s == CLOSED && c != '"') {
            rc = after_quote(r, c, err);
        } else {
            s = s == BEGIN ? BARE : s == CLOSED ? QUOTED : s; // CLOSED: the quote was doubled
            rc = put(r, c, err);
        }
        if (rc)
            return rc;
    }
    if (s == BARE && r->text[r->n - 1] == '\r')
        r->n--;
    r->blank = r->n == 0 && s != CLOSED;
    return field_end(r, err);
}

int row_file_next(struct row_file *r, struct err *err)
{
    do {
        int c = getc_unlocked(r->f);

        if (c == EOF)
            return ferror(r->f) ? err_set(err, -EIO, "read %s: %s", r->path, strerror(EIO)) : 0;
        ungetc(c, r->f);
        r->line = r->at;
        r->n = r->n_fields = 0;
        int rc = field_begin(r, err);

        rc = rc ? rc : row_read(r, err);
        if (!rc && ferror(r->f))
            rc = err_set(err, -EIO, "read %s near line %zu: %s", r->path, r->at, strerror(EIO));
        if (rc)
            return rc;
    } while (r->blank);
    return 1;
}
