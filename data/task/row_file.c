/* row_file.c: reads a text file one row at a time, byte by byte: one pass splits, unquotes and
 * counts lines. The fields of a row stand one after the other in one buffer, each ended by a NUL,
 * so that growing the buffer moves no pointer that anybody holds. */
#include "data/task/row_file.h"

#include "data/base/grow.h"
#include "data/base/utf8.h"

#include <assert.h>
#include <ctype.h>
#include <sys/stat.h>

/* Looks at the beginning: skips a byte order mark, finds how lines end, and whether a JSON list
 * holds the rows. */
static int begin(struct row_file *r, struct err *err)
{
    char   mark[3];
    int    c, quoted = 0;
    size_t n = 0;
    long   from = (long)utf8_mark(mark, fread(mark, 1, sizeof mark, r->f));

    fseek(r->f, from, SEEK_SET); // rewind would forget that a read failed
    while ((c = getc_unlocked(r->f)) != EOF && ((c != '\n' && c != '\r') || quoted) &&
           n++ < ROW_MAX_BYTES) // a list of JSON may be one line
        quoted ^= c == '"' && r->kind == ROWS_CSV;
    r->returns = c == '\r' && getc_unlocked(r->f) != '\n';
    fseek(r->f, from, SEEK_SET);
    do
        c = r->kind == ROWS_JSON ? getc_unlocked(r->f) : EOF;
    while (c != EOF && isspace(c));
    r->list = c == '[' ? LIST_BEGINS : LIST_NONE;
    int broken = ferror(r->f);
    if (broken || fseek(r->f, from, SEEK_SET))
        return err_set(err, broken ? -EIO : -errno, "read %s: %s", r->path,
                       strerror(broken ? EIO : errno));
    return 0;
}

int row_file_head(struct row_head *head, FILE *f, const struct unpack *packed, const char *path,
                  enum file_want want, struct err *err)
{
    struct file_look look;
    struct stat      st = { 0 };

    size_t n = head->n = fread(head->text, 1, sizeof head->text - 1, f);
    head->text[n] = '\0';
    head->at = utf8_mark(head->text, n);
    head->at += strspn(head->text + head->at, " \t\r\n");
    if (ferror(f))
        return packed ? unpack_failed(packed, err)
                      : err_set(err, -EIO, "read %s: %s", path, strerror(EIO));
    rewind(f);
    if (!packed && fstat(fileno(f), &st))
        return err_set(err, -errno, "stat %s: %s", path, strerror(errno));
    file_kind_head(&look, head->text, n, packed ? UINT64_MAX : (uint64_t)st.st_size);
    if (look.kind != FILE_FORMAT && (packed || look.kind != FILE_TOKENS))
        return 0;
    return packed ? file_kind_refuse_packed(&look, path, unpack_format(packed), want, err)
                  : file_kind_refuse(&look, path, want, err);
}

int row_file_open(struct row_file *r, const char *path, enum row_kind kind, struct err *err)
{
    struct unpack  *packed = NULL;
    FILE           *f = NULL;
    struct row_head head;

    *r = (struct row_file){ .path = unpack_shown(path), .kind = kind, .at = 1 };
    int rc = unpack_open(&f, &packed, path, err);
    rc = rc ? rc : row_file_head(&head, f, packed, r->path, FILE_FOR_ROWS, err);
    if (rc && f)
        fclose(f);
    return rc ? rc : row_file_open_stream(r, f, packed, r->path, kind, err);
}

int row_file_open_stream(struct row_file *r, FILE *f, struct unpack *packed, const char *path,
                         enum row_kind kind, struct err *err)
{
    *r = (struct row_file){ .path = path, .kind = kind, .at = 1, .f = f, .most = ROW_MAX_BYTES,
                            .packed = packed };
    return begin(r, err);
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

int row_file_explain(struct row_file *r, int rc, struct err *err)
{
    const uint64_t most = (uint64_t)1 << 30;
    char           some[4096];

    for (uint64_t n = 0; r->packed && n < most && fread(some, 1, sizeof some, r->f);)
        n += sizeof some;
    int worse = unpack_failed(r->packed, err);

    return worse ? worse : rc;
}

static int read_failed(const struct row_file *r, struct err *err)
{
    int rc = unpack_failed(r->packed, err);

    return rc ? rc : err_set(err, -EIO, "read %s near line %zu: %s", r->path, r->at, strerror(EIO));
}

static int has_nul(const struct row_file *r, struct err *err)
{
    return err_misuse(err, "%s:%zu: a NUL byte, which no text has", r->path, r->at);
}

static int put(struct row_file *r, int c, struct err *err)
{
    if (r->n >= r->most)
        return err_misuse(err, "%s:%zu: this row has more than %zu bytes%s", r->path, r->line,
                          r->most, r->why ? r->why : "");
    int rc = grow(&r->text, &r->cap, r->n + 1, 1, "bytes of a row", err);

    if (!rc)
        r->text[r->n++] = (char)c;
    return rc;
}

static int field_begin(struct row_file *r, struct err *err)
{
    if (r->n_fields == ROW_MAX_FIELDS)
        return err_misuse(err, "%s:%zu: more than %d columns", r->path, r->line, ROW_MAX_FIELDS);
    r->start[r->n_fields++] = r->n;
    return 0;
}

static int field_end(struct row_file *r, struct err *err)
{
    size_t from = r->start[r->n_fields - 1], n = r->n - from;
    int    why;
    size_t valid = n ? utf8_valid(r->text + from, n, &why) : 0;
    char   recode[900];

    if (valid == n)
        return put(r, 0, err);
    int whole = !r->packed && strcmp(r->path, unpack_shown("-")); // iconv reads the file itself
    file_kind_recode(recode, sizeof recode, whole ? r->path : NULL);
    return err_misuse(err, "%s:%zu: column %zu is not valid UTF-8 (byte %zu of it, 0x%02x): if the "
                      "file is Latin-1, %s makes it UTF-8", r->path, r->line, r->n_fields,
                      valid + 1, (unsigned char)r->text[from + valid], recode);
}

/* Checks what follows a closing quote. Except for a comma and the line's end, only \r before that
 * end may. */
static int after_quote(struct row_file *r, int c, struct err *err)
{
    int next = c == '\r' ? getc_unlocked(r->f) : c;

    if (c == '\r' && (next == '\n' || next == EOF)) {
        if (next == '\n')
            ungetc(next, r->f);
        return 0;
    }
    if (c == ';' || c == '\t')
        return err_misuse(err, "%s:%zu: a %s after the closing double quote of column %zu: a .csv "
                          "has commas between its columns, save the file so", r->path, r->at,
                          c == ';' ? "semicolon" : "tab", r->n_fields);
    return err_misuse(err, "%s:%zu: text after the closing double quote of column %zu: a quoted "
                      "field ends at a comma or the line's end, a quote in it is doubled", r->path,
                      r->at, r->n_fields);
}

/* Reads a row. Quotes are those of RFC 4180. In addition, a quote inside a field that does not
 * begin with one is a character. */
static int row_read(struct row_file *r, struct err *err)
{
    const int quotes = r->kind == ROWS_CSV;
    const int between = quotes ? ',' : r->kind == ROWS_TSV ? '\t' : EOF; // EOF: nothing
    enum { BEGIN, BARE, QUOTED, CLOSED } s = BEGIN;

    for (;;) {
        int c = getc_unlocked(r->f), rc = 0;

        if (c == '\r' && r->returns && s != QUOTED)
            c = '\n';
        int end = c == '\n' || c == EOF;
        r->at += (size_t)(end || (c == '\r' && r->returns));
        if (s == QUOTED && c == EOF && ferror(r->f))
            return read_failed(r, err);
        if (s == QUOTED && c == EOF)
            return err_misuse(err, "%s:%zu: in the row that begins here a double quote is opened "
                              "and never closed", r->path, r->line);
        if (s != QUOTED && end)
            break;
        if (c == 0)
            return has_nul(r, err);
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

/* ---- a list of JSON ---- */

static int past_blanks(struct row_file *r)
{
    int c;

    while ((c = getc_unlocked(r->f)) == ' ' || c == '\t' || c == '\n' || c == '\r')
        r->at += c == '\n' || (c == '\r' && r->returns);
    return c;
}

/* Reads an object up to its closing brace. Errors inside it are found by the parser. */
static int object_read(struct row_file *r, struct err *err)
{
    size_t depth = 0;
    int    c = '{', quoted = 0, escaped = 0, rc = 0;

    do {
        if (c == EOF)
            return ferror(r->f) ? read_failed(r, err)
                                : err_misuse(err, "%s:%zu: the object that begins here does not "
                                             "end: the file was cut off", r->path, r->line);
        if (c == 0)
            return has_nul(r, err);
        rc = put(r, c, err);
        r->at += c == '\n' || (c == '\r' && r->returns);
        quoted ^= c == '"' && !escaped;
        escaped = quoted && c == '\\' && !escaped;
        depth += !quoted && (c == '{' || c == '[');
        depth -= !quoted && (c == '}' || c == ']');
    } while (!rc && depth && (c = getc_unlocked(r->f), 1));
    return rc ? rc : field_end(r, err);
}

/* Reads the next object of the list as a row of one field. Returns 1, or 0 behind the last. */
static int list_next(struct row_file *r, struct err *err)
{
    int first = r->list == LIST_BEGINS, c, rc;

    if (r->list == LIST_ENDED)
        return 0;
    c = past_blanks(r);
    if (first) // it is [
        c = past_blanks(r);
    else if (c == ',')
        c = past_blanks(r);
    else if (c != ']' && c != EOF)
        return err_misuse(err, "%s:%zu: a comma or the list's end is expected between two objects",
                          r->path, r->at);
    r->list = LIST_GOES_ON;
    r->line = r->at;
    r->n = r->n_fields = 0;
    if (c == '{') {
        rc = field_begin(r, err);
        rc = rc ? rc : object_read(r, err);
        return rc ? rc : 1;
    }
    if (ferror(r->f))
        return read_failed(r, err);
    if (c == EOF)
        return err_misuse(err, "%s:%zu: the list does not end: the file was cut off", r->path,
                          r->at);
    if (c != ']')
        return err_misuse(err, "%s:%zu: no JSON object begins here; a list of objects is expected",
                          r->path, r->at);
    r->list = LIST_ENDED;
    if (past_blanks(r) != EOF)
        return err_misuse(err, "%s:%zu: something stands behind the list's end", r->path, r->at);
    return ferror(r->f) ? read_failed(r, err) : 0;
}

int row_file_next(struct row_file *r, struct err *err)
{
    if (r->list != LIST_NONE)
        return list_next(r, err);
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
            rc = read_failed(r, err);
        if (rc)
            return rc;
    } while (r->blank);
    return 1;
}
