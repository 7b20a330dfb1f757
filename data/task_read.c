/* task_read.c: the rows of a task's files. A GLUE file's columns are known by number, those of one's own by
 * name; once the names are looked up, tables of both kinds are read by the same loop. JSON lines have no
 * header: the first object's names decide. */
#include "data/task.h"

#include "data/json.h"
#include "data/rows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* What a reading loop has besides its rows. */
struct reading { uint64_t most, n; task_row_fn row; void *ctx; };

static int reading_done(const struct reading *d)
{
    return d->most && d->n == d->most;
}

/* Hand a row on. A text must not be empty, except where `torn` files have such. */
static int reading_row(struct reading *d, const struct task_row *row, int torn, struct err *err)
{
    if (!torn && (!*row->text1 || (row->text2 && !*row->text2)))
        return err_misuse(err, "%s:%zu: the %s is empty", row->path, row->line,
                          !row->text2 ? "text" : *row->text1 ? "second text" : "first text");
    d->n++;
    return d->row(d->ctx, row, err);
}

static int reading_end(const struct reading *d, const char *path, struct err *err)
{
    return d->n ? 0 : err_misuse(err, "%s has no rows", path);
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

/* One row of `width` columns; *row->text1 NULL where it is torn and left out. */
static int table_row(const struct rows *r, const struct task_columns *c, size_t width, struct task_row *row,
                     struct err *err)
{
    size_t n = rows_fields(r);

    *row = (struct task_row){ .path = rows_path(r), .line = rows_line(r) };
    if (c->torn ? n < width : n != width) {
        if (c->torn)
            return 0;
        return err_misuse(err, "%s:%zu: %zu column%s, %zu are expected", row->path, row->line, n,
                          n == 1 ? "" : "s", width);
    }
    if (c->label != -1)
        row->label = rows_field(r, c->label == -2 ? n - 1 : (size_t)c->label);
    if (c->torn && row->label && !*row->label)
        return 0;
    row->text1 = rows_field(r, (size_t)c->text1);
    if (c->text2 >= 0)
        row->text2 = rows_field(r, (size_t)c->text2);
    return 0;
}

static int table_read(struct rows *r, const struct task_columns *c, size_t width, struct reading *d,
                      struct err *err)
{
    while (!reading_done(d)) {
        struct task_row row;
        int             rc = rows_next(r, err);

        if (rc == 0)
            return reading_end(d, rows_path(r), err);
        if (rc > 0)
            rc = table_row(r, c, width, &row, err);
        if (!rc && row.text1)
            rc = reading_row(d, &row, c->torn, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* The header of a GLUE file says how many columns its rows have. */
static int glue_header(struct rows *r, size_t *width, struct err *err)
{
    int rc = rows_next(r, err);

    if (rc < 0)
        return rc;
    if (rc == 0)
        return err_misuse(err, "%s is empty", rows_path(r));
    if (rows_fields(r) < *width)
        return err_misuse(err, "%s:%zu: the header has %zu column%s, at least %zu are expected", rows_path(r),
                          rows_line(r), rows_fields(r), rows_fields(r) == 1 ? "" : "s", *width);
    *width = rows_fields(r);
    return 0;
}

int task_read_glue(const char *path, const struct task_columns *c, uint64_t most, task_row_fn row, void *ctx,
                   struct err *err)
{
    struct reading d = { .most = most, .row = row, .ctx = ctx };
    size_t         width = table_least(c);
    struct rows   *r;
    int            rc = rows_open(&r, path, ROWS_TSV, err);

    if (rc)
        return rc;
    if (c->header)
        rc = glue_header(r, &width, err);
    if (!rc)
        rc = table_read(r, c, width, &d, err);
    rows_close(r);
    return rc;
}

/* ---- columns by name ---- */

/* Where a name stands among names[0..n), or -1. */
static int name_find(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return (int)i;
    return -1;
}

/* sentence1 (and sentence2), else sentence, else the first one or two that are not called label. */
static int names_choose(struct task_columns *c, const char *const *names, size_t n, const char *path,
                        struct err *err)
{
    *c = (struct task_columns){ .text1 = name_find(names, n, "sentence1"),
                                .text2 = -1,
                                .label = name_find(names, n, "label") };
    if (c->text1 >= 0) {
        c->text2 = name_find(names, n, "sentence2");
        return 0;
    }
    c->text1 = name_find(names, n, "sentence");
    for (int i = 0; c->text1 < 0 && i < (int)n; i++)
        if (i != c->label)
            c->text1 = i;
    if (c->text1 < 0)
        return err_misuse(err, "%s has no text: a column named sentence, or sentence1 and sentence2, is "
                          "expected", path);
    if (strcmp(names[c->text1], "sentence") == 0)
        return 0;
    for (int i = c->text1 + 1; c->text2 < 0 && i < (int)n; i++)
        if (i != c->label)
            c->text2 = i;
    return 0;
}

static int own_header(struct rows *r, struct task_columns *c, struct err *err)
{
    const char *names[ROWS_MAX_FIELDS];
    size_t      n;
    int         rc = rows_next(r, err);

    if (rc < 0)
        return rc;
    if (rc == 0)
        return err_misuse(err, "%s is empty", rows_path(r));
    n = rows_fields(r);
    for (size_t i = 0; i < n; i++) {
        names[i] = rows_field(r, i);
        if (name_find(names, i, names[i]) >= 0)
            return err_misuse(err, "%s:%zu: two columns are named '%.40s'", rows_path(r), rows_line(r),
                              names[i]);
    }
    return names_choose(c, names, n, rows_path(r), err);
}

static int own_read_table(struct rows *r, struct reading *d, struct err *err)
{
    struct task_columns c;
    int                 rc = own_header(r, &c, err);

    return rc ? rc : table_read(r, &c, rows_fields(r), d, err);
}

/* ---- JSON lines ---- */

struct json_names { char *text1, *text2; }; // text2 NULL: single sentences

/* The names of the first object. */
static int json_names_find(struct json_names *j, json_t *object, const char *path, struct err *err)
{
    const char         *names[ROWS_MAX_FIELDS], *name;
    struct task_columns c;
    size_t              n = 0;
    json_t             *value;
    int                 rc;

    if (json_object_size(object) > ROWS_MAX_FIELDS)
        return err_misuse(err, "%s: an object of more than %d names", path, ROWS_MAX_FIELDS);
    json_object_foreach(object, name, value)
        names[n++] = name;
    rc = names_choose(&c, names, n, path, err);
    if (rc)
        return rc;
    j->text1 = strdup(names[c.text1]);
    j->text2 = c.text2 < 0 ? NULL : strdup(names[c.text2]);
    if (!j->text1 || (c.text2 >= 0 && !j->text2))
        return err_set(err, -ENOMEM, "no memory for the names of %s", path);
    return 0;
}

static int json_text(const char **out, const json_t *object, const char *name, const struct task_row *row,
                     struct err *err)
{
    const json_t *value = json_object_get(object, name);

    if (!json_is_string(value))
        return err_misuse(err, "%s:%zu: %s \"%.40s\", a string is expected", row->path, row->line,
                          value ? "no string in" : "no", name);
    *out = json_string_value(value);
    return 0;
}

/* A label is a string or a number; null, or none, is none. *made: a number's text, the caller's to free. */
static int json_label(const char **out, char **made, const json_t *object, const struct task_row *row,
                      struct err *err)
{
    const json_t *value = json_object_get(object, "label");

    *out = *made = NULL;
    if (!value || json_is_null(value))
        return 0;
    if (json_is_string(value)) {
        *out = json_string_value(value);
        return 0;
    }
    if (!json_is_number(value))
        return err_misuse(err, "%s:%zu: the label is neither a string nor a number", row->path, row->line);
    *out = *made = json_dumps(value, JSON_ENCODE_ANY);
    return *made ? 0 : err_set(err, -ENOMEM, "no memory for a label of %s", row->path);
}

static int json_row(const struct rows *r, struct json_names *j, struct reading *d, struct err *err)
{
    struct task_row row = { .path = rows_path(r), .line = rows_line(r) };
    const char     *text = rows_field(r, 0);
    char            what[512], *made = NULL;
    json_t         *object;
    int             rc;

    snprintf(what, sizeof what, "%.480s:%zu", row.path, row.line);
    rc = json_parse(&object, text, strlen(text), what, err);
    if (rc)
        return rc;
    if (!json_is_object(object))
        rc = err_misuse(err, "%s:%zu: no JSON object, of which one a line is expected", row.path, row.line);
    if (!rc && !j->text1)
        rc = json_names_find(j, object, row.path, err);
    if (!rc)
        rc = json_text(&row.text1, object, j->text1, &row, err);
    if (!rc && j->text2)
        rc = json_text(&row.text2, object, j->text2, &row, err);
    if (!rc)
        rc = json_label(&row.label, &made, object, &row, err);
    if (!rc)
        rc = reading_row(d, &row, 0, err);
    free(made);
    json_decref(object);
    return rc;
}

static int own_read_json(struct rows *r, struct reading *d, struct err *err)
{
    struct json_names names = { 0 };
    int               rc = 0;

    while (!rc && !reading_done(d)) {
        rc = rows_next(r, err);
        if (rc == 0) {
            rc = reading_end(d, rows_path(r), err);
            break;
        }
        if (rc > 0)
            rc = json_row(r, &names, d, err);
    }
    free(names.text1);
    free(names.text2);
    return rc;
}

/* ---- one's own ---- */

/* How a file is read, by its name's end; negative: nobody knows. */
static int own_kind(const char *path)
{
    static const struct { const char *end; enum rows_kind kind; } ends[] = {
        { ".csv", ROWS_CSV }, { ".tsv", ROWS_TSV }, { ".json", ROWS_LINES }, { ".jsonl", ROWS_LINES },
    };
    const char *dot = strrchr(path, '.');

    for (size_t i = 0; dot && i < sizeof ends / sizeof *ends; i++)
        if (strcasecmp(dot, ends[i].end) == 0)
            return (int)ends[i].kind;
    return -1;
}

int task_read_own(const char *path, uint64_t most, task_row_fn row, void *ctx, struct err *err)
{
    struct reading d = { .most = most, .row = row, .ctx = ctx };
    struct rows   *r;
    int            kind = own_kind(path), rc;

    if (kind < 0)
        return err_misuse(err, "%s: a name that ends in .csv, .tsv, .json or .jsonl is expected, which says "
                          "how to read it", path);
    rc = rows_open(&r, path, (enum rows_kind)kind, err);
    if (rc)
        return rc;
    rc = kind == ROWS_LINES ? own_read_json(r, &d, err) : own_read_table(r, &d, err);
    rows_close(r);
    return rc;
}
