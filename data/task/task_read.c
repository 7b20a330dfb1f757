/* task_read.c: reads the rows of a task's files. The columns of GLUE's files are known by number,
 * those of a user's file by name. When the names are found, one loop reads tables of both kinds.
 * JSON has no header, so the names of the first object decide. */
#include "data/task/task.h"

#include "data/base/table.h"
#include "data/json/json.h"
#include "data/task/own_kind.h"

#include <math.h>
#include <strings.h>

/* The state while a file is read. */
struct reading {
    const char       *path; // borrowed; file.path is what sentences call it
    struct row_file   file;
    enum row_kind     kind;
    uint64_t          most, n; // rows to read (0: all), and read so far
    task_row_fn       row;
    void             *ctx;
    struct task_names asked, read; // columns of a user's file; `read` is freed at the end
    char              known[512];  // all names of the file
    char              unread[256]; // list of the text columns that are not read
    char             *header;      // a table's names, each ended by a zero
    unsigned char     noted[ROW_MAX_FIELDS]; // columns that are read, or are in `unread`
};

/* Passes a row to the caller. A text must not be empty, except in `torn` files. */
static int reading_row(struct reading *d, const struct task_row *row, int torn, struct err *err)
{
    if (!torn && (!*row->text1 || (row->text2 && !*row->text2)))
        return err_misuse(err, "%s:%zu: the %s is empty", row->path, row->line,
                          !row->text2 ? "text" : *row->text1 ? "second text" : "first text");
    d->n++;
    return d->row(d->ctx, row, err);
}

/* Whether this is words, not a number, date or code. Many scripts have neither blanks nor small
 * letters. */
static int is_text(const char *value)
{
    enum { LONG = 24 };
    const char *blank = strchr(value, ' ');
    int         letters = value[strcspn(value, "abcdefghijklmnopqrstuvwxyz")] != 0, wide = 0;

    for (size_t i = 0; value[i] && !wide; i++)
        wide = (unsigned char)value[i] >= 0x80;
    return (blank && blank[1] && (letters || wide)) || (wide && strlen(value) >= LONG);
}

static void note_unread(struct reading *d, const char *name)
{
    size_t n = strlen(d->unread);

    if (n + 64 < sizeof d->unread)
        snprintf(d->unread + n, sizeof d->unread - n, "%s'%.40s'", n ? ", " : "", name);
}

/* Reads the next row. Returns 1, 0 at the end, or an error, also for a file without rows. */
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

/* The fewest columns that a row needs. A label in the last column follows the texts. */
static size_t table_least(const struct task_columns *c)
{
    int last = c->text1 > c->text2 ? c->text1 : c->text2;

    if (c->label == -2)
        last++;
    else if (c->label > last)
        last = c->label;
    return (size_t)last + 1;
}

/* Takes a row of `width` columns. If it is torn and skipped, row->text1 is NULL. */
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

/* A GLUE file's header gives the number of columns. If it has a number in the label's place, it is
 * a row, and the file, which has no header, is another task's. */
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
    struct reading d = { .path = path, .most = most, .row = row, .ctx = ctx };
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

struct header { const char *path; const char *const *name; size_t n; };

static int header_find(const struct header *h, const char *name)
{
    const char *const *found = table_find(h->name, h->n, sizeof *h->name, name);

    return found ? (int)(found - h->name) : -1;
}

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

/* Chooses text columns that the user did not name: known names, or else the first one or two that
 * are not the label. Columns that number the rows count only if there is no other. */
static void header_guess(struct task_columns *c, const struct header *h)
{
    // the first four, if both are there, are the task_to_keys of run_glue.py
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

/* Finds the columns to read. Returns NULL, or the name that is missing. */
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

/* Keeps the names of the chosen columns while the file is read, or refuses the file. */
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

/* ---- a user's tables ---- */

/* Refuses a .tsv whose header has the missing column in double quotes, because its fields are
 * quoted. */
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

/* Keeps the names while rows are read, unless the user chose the text columns. */
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
    int           rc = own_kind_delimiter(d->path, d->kind, NULL, err);

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
        rc = own_kind_delimiter(d->path, d->kind, sought, err);
    if (rc >= 0 && (missing || c->label < 0) && d->kind == ROWS_TSV)
        rc = quotes_check(&h, sought, err);
    rc = rc < 0 ? rc : header_names(d, &h, c, missing, err);
    return rc ? rc : keep_header(d, c, err);
}

/* ---- JSON lines ---- */

/* Whether a row is a conversation, on which a language model would be trained. */
static int has_turns(const json_t *object)
{
    return json_is_array(json_object_get(object, "messages")) ||
           json_is_array(json_object_get(object, "conversations"));
}

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

/* Takes a label: a string, a number or a truth value. null means that there is none. If it is no
 * string, *made is its text, which the caller frees. */
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

/* Notes the names of an object that hold text and are not read, among its first names. */
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
        rc = err_misuse(err, "%s:%zu: this is no JSON object; one object a line is expected",
                        row.path, row.line);
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

/* The file was refused (rc) before its first row. If it is one object with its rows in a list, a
 * better sentence says so. */
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

/* ---- a user's file ---- */

int task_read_own(const char *path, const struct task_names *names, uint64_t most, task_row_fn row,
                  void *ctx, struct err *err)
{
    struct reading      d = { .path = path, .most = most, .row = row, .ctx = ctx };
    struct task_columns c;
    int                 kind, rc = own_kind(&kind, path, err);

    if (rc)
        return rc;
    d.kind = kind < 0 ? ROWS_LINES : (enum row_kind)kind;
    if (names)
        d.asked = *names;
    rc = row_file_open(&d.file, path, d.kind, err);
    if (!rc && kind < 0)
        rc = err_misuse(err, "%s: a name that ends in .csv, .tsv, .json or .jsonl is expected, "
                        "which says how to read it; .gz or .zst may follow", path);
    if (!rc && (d.kind == ROWS_CSV || d.kind == ROWS_TSV) && !(rc = own_header(&d, &c, err)))
        rc = table_read(&d, &c, d.file.n_fields, err);
    while (!rc && d.kind == ROWS_JSON && (rc = reading_next(&d, err)) > 0)
        rc = json_row(&d, err);
    if (rc < 0 && d.kind == ROWS_JSON && !d.n && !d.file.packed && own_kind_named(path) >= 0)
        rc = json_rows_inside(path, rc, err);
    rc = rc < 0 && rc != -EINTR ? row_file_explain(&d.file, rc, err) : rc;
    task_names_free(&d.read);
    free(d.header);
    row_file_close(&d.file);
    return rc;
}
