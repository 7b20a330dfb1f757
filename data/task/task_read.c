/* task_read.c: the rows of a task's files. A GLUE file's columns are known by number, those of
 * one's own by name; once the names are looked up, tables of both kinds are read by the same loop.
 * JSON has no header: the first object's names decide. */
#include "data/task/task.h"

#include "data/base/json.h"
#include "data/task/row_file.h"

#include <math.h>
#include <strings.h>

/* One reading of a file. */
struct reading {
    struct row_file   file;
    enum row_kind     kind;
    uint64_t          most, n; // rows asked for, 0: all; and handed on
    task_row_fn       row;
    void             *ctx;
    struct task_names asked, read; // one's own files: of columns; read is freed at the end
    char              known[512];  // the names that the file has
    char              unread[256]; // those of columns that hold text and are not read, as a list
    char             *header;      // of a table: its names, each ended by a zero
    unsigned char     noted[ROW_MAX_FIELDS]; // columns that are read, or are in `unread`
};

/* Hand a row on. A text must not be empty, except where `torn` files have such. */
static int reading_row(struct reading *d, const struct task_row *row, int torn, struct err *err)
{
    if (!torn && (!*row->text1 || (row->text2 && !*row->text2)))
        return err_misuse(err, "%s:%zu: the %s is empty", row->path, row->line,
                          !row->text2 ? "text" : *row->text1 ? "second text" : "first text");
    d->n++;
    return d->row(d->ctx, row, err);
}

/* Words: a text, no number, date or code. Many scripts have neither blanks nor small letters. */
static int is_text(const char *value)
{
    enum { LONG = 24 };
    const char *blank = strchr(value, ' ');
    int         letters = value[strcspn(value, "abcdefghijklmnopqrstuvwxyz")] != 0, wide = 0;

    for (size_t i = 0; value[i] && !wide; i++)
        wide = (unsigned char)value[i] >= 0x80;
    return (blank && blank[1] && (letters || wide)) || (wide && strlen(value) >= LONG);
}

/* A column that nobody reads holds text. */
static void note_unread(struct reading *d, const char *name)
{
    size_t n = strlen(d->unread);

    if (n + 64 < sizeof d->unread)
        snprintf(d->unread + n, sizeof d->unread - n, "%s'%.40s'", n ? ", " : "", name);
}

/* The next row: 1; 0 where all were read; negative: an error, as a file without rows is. */
static int reading_next(struct reading *d, struct err *err)
{
    int rc = d->most && d->n == d->most ? 0 : row_file_next(&d->file, err);

    return rc || d->n ? rc : err_misuse(err, "%s has no rows", d->file.path);
}

int task_number(const char *text, float *value)
{
    char *end;

    // neither blanks, nor hexadecimal, nor inf and nan
    if (!*text || text[strspn(text, "0123456789+-.eE")])
        return 0;
    float f = strtof(text, &end);
    if (value)
        *value = f;
    return !*end && isfinite(f);
}

/* ---- tables ---- */

/* The fewest columns that hold what is asked for; a last label stands after the texts. */
static size_t table_least(const struct task_columns *c)
{
    int last = c->text1 > c->text2 ? c->text1 : c->text2;

    if (c->label == -2)
        last++;
    else if (c->label > last)
        last = c->label;
    return (size_t)last + 1;
}

/* One row of `width` columns; row->text1 NULL where it is torn and left out. */
static int table_row(const struct row_file *f, const struct task_columns *c, size_t width,
                     struct task_row *row, struct err *err)
{
    size_t n = f->n_fields;

    if (c->torn ? n < width : n != width)
        return c->torn ? 0 : err_misuse(err, "%s:%zu: %zu column%s, %zu are expected", row->path,
                                        row->line, n, n == 1 ? "" : "s", width);
    if (c->label != -1)
        row->label = row_file_field(f, c->label == -2 ? n - 1 : (size_t)c->label);
    if (c->torn && row->label && !*row->label)
        return 0;
    row->text1 = row_file_field(f, (size_t)c->text1);
    if (c->text2 >= 0)
        row->text2 = row_file_field(f, (size_t)c->text2);
    return 0;
}

/* Which columns of one's own hold text and are not read. */
static void table_note(struct reading *d)
{
    const char *name = d->header;

    for (size_t i = 0; name && i < d->file.n_fields; i++, name += strlen(name) + 1)
        if (!d->noted[i] && is_text(row_file_field(&d->file, i))) {
            d->noted[i] = 1;
            note_unread(d, name);
        }
}

static int table_read(struct reading *d, const struct task_columns *c, size_t width,
                      struct err *err)
{
    int rc;

    while ((rc = reading_next(d, err)) > 0) {
        struct task_row row = { .path = d->file.path, .line = d->file.line,
                                .names = d->read.text ? &d->read : NULL, .known = d->known,
                                .unread = d->unread };

        rc = table_row(&d->file, c, width, &row, err);
        if (!rc)
            table_note(d);
        if (!rc && row.text1)
            rc = reading_row(d, &row, c->torn, err);
        if (rc)
            return rc;
    }
    return rc;
}

/* The header of a GLUE file says how many columns its rows have. A number in the label's place is a
 * row: of a file without a header, which is another task's. */
static int glue_header(struct reading *d, const struct task_columns *c, size_t *width,
                       struct err *err)
{
    struct row_file *f = &d->file;
    const char      *path = f->path;
    int              rc = row_file_next(f, err);
    size_t           n = rc > 0 ? f->n_fields : 0;

    if (rc <= 0)
        return rc ? rc : err_misuse(err, "%s is empty", path);
    if (n < *width)
        return err_misuse(err, "%s:%zu: the header has %zu column%s, at least %zu are expected",
                          path, f->line, n, n == 1 ? "" : "s", *width);
    *width = n;
    const char *label =
        c->label == -1 ? "" : row_file_field(f, c->label == -2 ? n - 1 : (size_t)c->label);
    if (task_number(label, NULL))
        return err_misuse(err, "%s:%zu: a header is expected, but '%.40s' stands where it names "
                          "the label: is this file the task's?", path, f->line, label);
    return 0;
}

int task_read_glue(const char *path, const struct task_columns *c, uint64_t most, task_row_fn row,
                   void *ctx, struct err *err)
{
    struct reading d = { .most = most, .row = row, .ctx = ctx };
    size_t         width = table_least(c);
    int            rc = row_file_open(&d.file, path, ROWS_TSV, err);

    if (!rc && c->header)
        rc = glue_header(&d, c, &width, err);
    rc = rc ? rc : table_read(&d, c, width, err);
    row_file_close(&d.file);
    return rc;
}

/* ---- columns by name ---- */

int task_names_copy(struct task_names *out, const struct task_names *from, struct err *err)
{
    *out = (struct task_names){ .text = from->text ? strdup(from->text) : NULL,
                                .pair = from->pair ? strdup(from->pair) : NULL,
                                .label = from->label ? strdup(from->label) : NULL };
    if (!out->text == !from->text && !out->pair == !from->pair && !out->label == !from->label)
        return 0;
    task_names_free(out);
    return err_set(err, -ENOMEM, "no memory for the names of columns");
}

void task_names_free(struct task_names *n)
{
    free((void *)(uintptr_t)n->text);
    free((void *)(uintptr_t)n->pair);
    free((void *)(uintptr_t)n->label);
    *n = (struct task_names){ 0 };
}

/* The names that a file has. */
struct header { const char *path; const char *const *name; size_t n; };

/* Where a name stands, or -1. */
static int header_find(const struct header *h, const char *name)
{
    for (size_t i = 0; i < h->n; i++)
        if (strcmp(h->name[i], name) == 0)
            return (int)i;
    return -1;
}

/* The names as one writes them; the first ones if there are many. */
static void header_list(const struct header *h, char *out, size_t size)
{
    size_t n = 0, i = 0;

    for (; i < h->n && n + 64 < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s'%.40s'", i ? ", " : "", h->name[i]);
    if (!h->n || i < h->n)
        snprintf(out + n, size - n, h->n ? ", ..." : "nothing");
}

static int is_number_of_row(const char *name)
{
    static const char *const names[] = { "", "id", "idx", "index" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(name, names[i]) == 0)
            return 1;
    return 0;
}

/* The texts that nobody named: known names first, then the first one or two that are not called
 * label, those that number the rows only where there is no other. */
static void header_guess(struct task_columns *c, const struct header *h)
{
    // the first four as run_glue.py knows GLUE's tasks (task_to_keys), where both are there
    static const char *const known[][2] = {
        { "sentence1", "sentence2" }, { "premise", "hypothesis" }, { "question", "sentence" },
        { "question1", "question2" }, { "sentence1", NULL },       { "sentence", NULL },
        { "text", "text_pair" },      { "text", NULL },
    };
    int label = header_find(h, "label");

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        c->text1 = header_find(h, known[i][0]);
        c->text2 = known[i][1] ? header_find(h, known[i][1]) : -1;
        if (c->text1 >= 0 && (!known[i][1] || c->text2 >= 0))
            return;
    }
    c->text1 = c->text2 = -1;
    for (int numbers = 0; numbers < 2 && c->text1 < 0; numbers++)
        for (int i = 0; i < (int)h->n && c->text2 < 0; i++) {
            if (i == label || i == c->label || is_number_of_row(h->name[i]) != numbers)
                continue;
            *(c->text1 < 0 ? &c->text1 : &c->text2) = i;
        }
}

/* Where the columns stand that are asked for: NULL, or the name that is not there. */
static const char *header_choose(struct task_columns *c, const struct header *h,
                                 const struct task_names *asked)
{
    *c = (struct task_columns){ .text1 = -1,
                                .text2 = -1,
                                .label = header_find(h, asked->label ? asked->label : "label") };
    if (asked->label && c->label < 0)
        return asked->label;
    if (!asked->text) {
        header_guess(c, h);
        return NULL;
    }
    c->text1 = header_find(h, asked->text);
    c->text2 = asked->pair ? header_find(h, asked->pair) : -1;
    return c->text1 < 0 ? asked->text : asked->pair && c->text2 < 0 ? asked->pair : NULL;
}

/* The names of the columns that were chosen, which last as long as the reading; or what is missing.
 */
static int header_names(struct reading *d, const struct header *h, const struct task_columns *c,
                        const char *missing, struct err *err)
{
    if (missing)
        return err_misuse(err, "%s has no column '%.40s', but %s: --text-column, --pair-column and "
                          "--label-column say which are read", h->path, missing, d->known);
    if (c->text1 < 0)
        return err_misuse(err, "%s has no text: a column named sentence, or sentence1 and "
                          "sentence2, is expected, or the one that --text-column names", h->path);
    struct task_names read = { h->name[c->text1], c->text2 < 0 ? NULL : h->name[c->text2],
                               c->label < 0 ? NULL : h->name[c->label] };

    return task_names_copy(&d->read, &read, err);
}

/* ---- the delimiter ---- */

static const struct delimiter { char c; const char *many, *works; } delimiters[] = {
    { ',', "commas", "name it .csv" },
    { '\t', "tabs", "name it .tsv" },
    { ';', "semicolons", NULL },
    { '|', "vertical bars", NULL },
};

/* Columns of a line with this between them, not within double quotes (which are characters between
 * tabs). *found: one is called `name`. */
static size_t delimiter_columns(const struct delimiter *d, const char *line, const char *name,
                                int *found)
{
    const char *from = line;
    size_t      n = 1;
    int         quoted = 0;

    *found = 0;
    for (const char *p = line;; p++) {
        quoted ^= *p == '"' && d->c != '\t';
        if (*p && (*p != d->c || quoted))
            continue;
        size_t quotes = p - from >= 2 && *from == '"' && p[-1] == '"';
        size_t len = (size_t)(p - from) - 2 * quotes;

        *found |= name && strlen(name) == len && !memcmp(from + quotes, name, len);
        if (!*p)
            return n;
        n++;
        from = p + 1;
    }
}

/* Is the first line one of columns with another delimiter? Where the file's own one is not in it,
 * any that is; else one that gives a column `name`, which is missing. What cannot be read is said
 * elsewhere. */
static int delimiter_check(const char *path, enum row_kind kind, const char *name, struct err *err)
{
    const struct delimiter *used = &delimiters[kind == ROWS_CSV ? 0 : 1], *other = NULL;
    struct row_file         r;
    size_t                  most = 1;
    int found, read = !row_file_open(&r, path, ROWS_LINES, NULL) && row_file_next(&r, NULL) == 1;
    const char *line = read ? row_file_field(&r, 0) : "";

    if (delimiter_columns(used, line, name, &found) == 1 || (name && !found))
        for (size_t i = 0; i < sizeof delimiters / sizeof *delimiters; i++) {
            size_t n = delimiter_columns(&delimiters[i], line, name, &found);

            if (n > most && &delimiters[i] != used && (!name || found)) {
                other = &delimiters[i];
                most = n;
            }
        }
    row_file_close(&r);
    if (!other)
        return 0;
    return err_misuse(err, "%s has %s between its columns, where .%s has %s: %s%swrite it with %s",
                      path, other->many, kind == ROWS_CSV ? "csv" : "tsv", used->many,
                      other->works ? other->works : "", other->works ? ", or " : "", used->many);
}

/* ---- tables of one's own ---- */

/* A .tsv where a column is missing that its header has in double quotes: its fields are quoted. */
static int quotes_check(const struct header *h, const char *name, struct err *err)
{
    size_t n = strlen(name);

    for (size_t i = 0; i < h->n; i++) {
        const char *is = h->name[i];

        if (strlen(is) == n + 2 && is[0] == '"' && is[n + 1] == '"' && !memcmp(is + 1, name, n))
            return err_misuse(err, "%s: the column %.40s stands in double quotes, which a .tsv "
                              "file takes as text: save it as .csv", h->path, is);
    }
    return 0;
}

/* The names are needed while rows are read, where a person did not say which texts are. */
static int keep_header(struct reading *d, const struct task_columns *c, struct err *err)
{
    if (d->asked.text)
        return 0;
    d->header = malloc(d->file.n);
    if (!d->header)
        return err_set(err, -ENOMEM, "no memory for the names of columns");
    memcpy(d->header, d->file.text, d->file.n);
    const int read[] = { c->text1, c->text2, c->label };
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        if (read[i] >= 0)
            d->noted[read[i]] = 1;
    return 0;
}

static int own_header(struct reading *d, struct task_columns *c, struct err *err)
{
    const char   *name[ROW_MAX_FIELDS];
    struct header h = { d->file.path, name, 0 };
    int           rc = delimiter_check(h.path, d->kind, NULL, err);

    if (!rc && (rc = row_file_next(&d->file, err)) == 0)
        return err_misuse(err, "%s is empty", h.path);
    if (rc < 0)
        return rc;
    for (; h.n < d->file.n_fields; h.n++) {
        name[h.n] = row_file_field(&d->file, h.n);
        if (header_find(&h, name[h.n]) >= 0)
            return err_misuse(err, "%s:%zu: two columns are named '%.40s'", h.path,
                              d->file.line, name[h.n]);
    }
    header_list(&h, d->known, sizeof d->known);
    const char *missing = header_choose(c, &h, &d->asked);
    const char *sought = missing ? missing : "label";
    if (missing || c->label < 0)
        rc = delimiter_check(h.path, d->kind, sought, err);
    if (rc >= 0 && (missing || c->label < 0) && d->kind == ROWS_TSV)
        rc = quotes_check(&h, sought, err);
    rc = rc < 0 ? rc : header_names(d, &h, c, missing, err);
    return rc ? rc : keep_header(d, c, err);
}

/* ---- JSON lines ---- */

/* Whether a row is a conversation, for which a language model is trained. */
static int has_turns(const json_t *object)
{
    return json_is_array(json_object_get(object, "messages")) ||
           json_is_array(json_object_get(object, "conversations"));
}

/* The names of the first object. */
static int json_names(struct reading *d, json_t *object, struct err *err)
{
    const char         *names[ROW_MAX_FIELDS], *name;
    struct header       h = { d->file.path, names, 0 };
    struct task_columns c;
    json_t             *value;

    if (json_object_size(object) > ROW_MAX_FIELDS)
        return err_misuse(err, "%s: an object of more than %d names", h.path, ROW_MAX_FIELDS);
    if (has_turns(object) && !d->asked.text)
        return err_misuse(err, "%s has conversations, and a classifier's rows are texts with "
                          "labels: --task chat trains a language model on conversations", h.path);
    json_object_foreach(object, name, value)
        names[h.n++] = name;
    header_list(&h, d->known, sizeof d->known);
    return header_names(d, &h, &c, header_choose(&c, &h, &d->asked), err);
}

static int json_text(const char **out, const json_t *object, const char *name,
                     const struct task_row *row, struct err *err)
{
    const json_t *value = json_object_get(object, name);

    if (!json_is_string(value))
        return err_misuse(err, "%s:%zu: %s \"%.40s\", a string is expected", row->path, row->line,
                          value ? "no string in" : "no", name);
    *out = json_string_value(value);
    return 0;
}

/* A label is a string, a number or a truth value; null, or none, is none. *made: the text of what
 * is no string, the caller's to free. */
static int json_label(const char **out, char **made, const json_t *object, const char *name,
                      const struct task_row *row, struct err *err)
{
    const json_t *value = json_object_get(object, name);

    *out = *made = NULL;
    if (!value || json_is_null(value))
        return 0;
    if (json_is_string(value)) {
        *out = json_string_value(value);
        return 0;
    }
    if (!json_is_number(value) && !json_is_boolean(value))
        return err_misuse(err, "%s:%zu: the label is a list or an object, where a string, a number "
                          "or a truth value is expected", row->path, row->line);
    *out = *made = json_dumps(value, JSON_ENCODE_ANY);
    return *made ? 0 : err_set(err, -ENOMEM, "no memory for a label of %s", row->path);
}

/* Which names of an object hold text and are not read; the first ones of it are looked at. */
static void json_note(struct reading *d, const json_t *object)
{
    const struct task_names *read = &d->read;
    const char              *name;
    json_t                  *value;
    size_t                   i = 0;
    char                     quoted[64];

    if (d->asked.text)
        return;
    json_object_foreach((json_t *)(uintptr_t)object, name, value) {
        if (i++ == ROW_MAX_FIELDS)
            break;
        snprintf(quoted, sizeof quoted, "'%.40s'", name);
        if (json_is_string(value) && strcmp(name, read->text) &&
            (!read->pair || strcmp(name, read->pair)) &&
            (!read->label || strcmp(name, read->label)) &&
            is_text(json_string_value(value)) && !strstr(d->unread, quoted))
            note_unread(d, name);
    }
}

static int json_row(struct reading *d, struct err *err)
{
    const struct task_names *read = &d->read;
    struct task_row row = { .path = d->file.path, .line = d->file.line,
                            .names = read, .known = d->known, .unread = d->unread };
    const char     *text = row_file_field(&d->file, 0);
    const char     *label = d->asked.label ? d->asked.label : "label";
    char            what[512], *made = NULL;
    json_t         *object;

    snprintf(what, sizeof what, "%.480s:%zu", row.path, row.line);
    int rc = json_parse(&object, text, strlen(text), what, err);
    if (rc)
        return rc;
    if (!json_is_object(object))
        rc = err_misuse(err, "%s:%zu: no JSON object, of which one a line is expected", row.path,
                        row.line);
    if (!rc && !read->text)
        rc = json_names(d, object, err);
    rc = rc ? rc : json_text(&row.text1, object, read->text, &row, err);
    if (!rc && read->pair)
        rc = json_text(&row.text2, object, read->pair, &row, err);
    rc = rc ? rc : json_label(&row.label, &made, object, label, &row, err);
    if (!rc)
        json_note(d, object);
    rc = rc ? rc : reading_row(d, &row, 0, err);
    free(made);
    json_decref(object);
    return rc;
}

/* Before its first row a file was refused (rc). If it is one object that has its rows in a list,
 * this is what a person wants to hear. */
static int json_rows_inside(const char *path, int rc, struct err *err)
{
    json_t     *whole = NULL, *value;
    const char *name, *list = NULL;

    if (!json_read(&whole, path, ROW_MAX_BYTES, NULL) && !has_turns(whole))
        json_object_foreach(whole, name, value)
            list = !list && json_is_object(json_array_get(value, 0)) ? name : list;
    if (list)
        rc = err_misuse(err, "%s is one object of JSON, where rows are expected, one a line or in "
                        "one list: jq '.\"%.40s\"' %s >rows.json takes out its list", path, list,
                        path);
    json_decref(whole);
    return rc;
}

/* ---- one's own ---- */

/* How a file is read, by its name's end; negative: nobody knows. */
static int own_kind(const char *path)
{
    static const struct { const char *end; enum row_kind kind;
    } ends[] = {
        { ".csv", ROWS_CSV },
        { ".tsv", ROWS_TSV },
        { ".json", ROWS_JSON },
        { ".jsonl", ROWS_JSON },
    };
    const char *dot = strrchr(path, '.');

    for (size_t i = 0; dot && i < sizeof ends / sizeof *ends; i++)
        if (strcasecmp(dot, ends[i].end) == 0)
            return (int)ends[i].kind;
    return -1;
}

int task_read_own(const char *path, const struct task_names *names, uint64_t most, task_row_fn row,
                  void *ctx, struct err *err)
{
    struct reading      d = { .most = most, .row = row, .ctx = ctx };
    struct task_columns c;
    int                 kind = own_kind(path);

    d.kind = kind < 0 ? ROWS_LINES : (enum row_kind)kind;
    if (names)
        d.asked = *names;
    int rc = row_file_open(&d.file, path, d.kind, err);
    if (!rc && kind < 0)
        rc = err_misuse(err, "%s: a name that ends in .csv, .tsv, .json or .jsonl is expected, "
                        "which says how to read it", path);
    if (!rc && (d.kind == ROWS_CSV || d.kind == ROWS_TSV) && !(rc = own_header(&d, &c, err)))
        rc = table_read(&d, &c, d.file.n_fields, err);
    while (!rc && d.kind == ROWS_JSON && (rc = reading_next(&d, err)) > 0)
        rc = json_row(&d, err);
    if (rc < 0 && d.kind == ROWS_JSON && !d.n)
        rc = json_rows_inside(path, rc, err);
    task_names_free(&d.read);
    free(d.header);
    row_file_close(&d.file);
    return rc;
}
