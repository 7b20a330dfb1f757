/* rows.c: rows of a file, one object after the other. A file is JSON if it begins with a brace or
 * a bracket. Otherwise it is a .csv, whose rows become objects of texts. The first object says
 * which form the file has: the one whose keys are all there. If several fit, the user must say. */
#include "chat/rows_parts.h"

#include "data/base/table.h"
#include "data/base/utf8.h"
#include "data/file/file_kind.h"

#include <sys/stat.h>

#define FORMS ((enum chat_form)(CHAT_FORM_PREFERENCE + 1))

static const char *const key_names[ROW_KEYS] = {
    [KEY_MESSAGES] = "messages", [KEY_CONVERSATIONS] = "conversations",
    [KEY_INSTRUCTION] = "instruction", [KEY_OUTPUT] = "output", [KEY_PROMPT] = "prompt",
    [KEY_COMPLETION] = "completion", [KEY_TEXT] = "text", [KEY_CHOSEN] = "chosen",
    [KEY_REJECTED] = "rejected",
};

/* The keys by which a form is known, and a bit for each that the user may name otherwise. */
#define BIT(key) (1u << (key))
static const struct { size_t n; enum row_key key[2]; unsigned named; } forms[] = {
    [CHAT_FORM_MESSAGES] = { 1, { KEY_MESSAGES }, BIT(KEY_MESSAGES) },
    [CHAT_FORM_SHAREGPT] = { 1, { KEY_CONVERSATIONS }, BIT(KEY_MESSAGES) },
    [CHAT_FORM_ALPACA] = { 2, { KEY_INSTRUCTION, KEY_OUTPUT }, 0 },
    [CHAT_FORM_COMPLETION] = { 2, { KEY_PROMPT, KEY_COMPLETION },
                               BIT(KEY_PROMPT) | BIT(KEY_COMPLETION) },
    [CHAT_FORM_TEXT] = { 1, { KEY_TEXT }, BIT(KEY_TEXT) },
    [CHAT_FORM_PREFERENCE] = { 2, { KEY_CHOSEN, KEY_REJECTED },
                               BIT(KEY_PROMPT) | BIT(KEY_CHOSEN) | BIT(KEY_REJECTED) },
};

enum chat_form chat_rows_form(const struct chat_rows *r) { return r->form; }

void chat_rows_progress(const struct chat_rows *r, uint64_t *done, uint64_t *total)
{
    struct stat st;
    int         plain = !r->file.packed && !fstat(fileno(r->file.f), &st) && S_ISREG(st.st_mode);

    *total = plain ? (uint64_t)st.st_size : 0;
    *done = plain ? (uint64_t)ftello(r->file.f) : r->file.line;
}

/* ---- the form */

static void keys_list(const struct chat_rows *r, char *out, size_t size)
{
    const char *key;
    json_t     *v;
    size_t      n = 0;

    snprintf(out, size, "none");
    json_object_foreach(r->object, key, v)
        if (n + 64 < size)
            n += (size_t)snprintf(out + n, size - n, "%s\"%.40s\"%s", n ? ", " : "", key,
                                  json_is_null(v) ? ": null" : "");
}

/* Writes advice for rows without known keys, or "". */
static void keys_hint(const struct chat_rows *r, char *out, size_t size)
{
    const char *key;
    json_t     *v;

    *out = '\0';
    json_object_foreach(r->object, key, v) {
        const json_t *first = json_array_get(v, 0);

        if (json_is_object(first) && !json_object_get(first, "role") &&
            !json_object_get(first, "from")) {
            snprintf(out, size, "; if the rows are the list in \"%.40s\", jq -c '.\"%.40s\"[]' "
                     "writes them one per line", key, key);
            return;
        }
    }
}

static int names_take(struct chat_rows *r, const struct chat_names *names, struct err *err)
{
    const char *const said[ROW_KEYS] = {
        [KEY_MESSAGES] = names->messages, [KEY_PROMPT] = names->prompt,
        [KEY_COMPLETION] = names->completion, [KEY_TEXT] = names->text,
        [KEY_CHOSEN] = names->chosen, [KEY_REJECTED] = names->rejected,
    };
    unsigned given = 0;

    for (size_t k = 0; k < ROW_KEYS; k++) {
        r->key[k] = said[k] ? said[k] : key_names[k];
        given |= said[k] ? BIT(k) : 0;
    }
    if (names->messages)
        r->key[KEY_CONVERSATIONS] = names->messages;
    for (enum chat_form f = CHAT_FORM_MESSAGES; f < FORMS; f++)
        r->takes |= (given & ~forms[f].named) ? 0 : BIT(f);
    if (!r->takes)
        return err_misuse(err, "%s: the names of keys are of several forms of rows", r->path);
    if (r->form && !(r->takes & BIT(r->form)))
        return err_misuse(err, "%s: a name is given for a key that rows of the form %s do not "
                          "have", r->path, chat_form_name(r->form));
    return 0;
}

static int has_keys(const struct chat_rows *r, enum chat_form f)
{
    for (size_t i = 0; i < forms[f].n; i++)
        if (!row_member(r->object, r->key[forms[f].key[i]]))
            return 0;
    return 1;
}

/* Finds the key of ShareGPT's turns, which has one of two names. */
static void sharegpt_key(struct chat_rows *r)
{
    const char **key = &r->key[KEY_CONVERSATIONS];

    if (*key == key_names[KEY_CONVERSATIONS] && !row_member(r->object, *key) &&
        row_member(r->object, "conversation"))
        *key = "conversation";
}

static int form_find(struct chat_rows *r, struct err *err)
{
    enum chat_form fits[FORMS];
    size_t         n = 0;
    char           keys[320], hint[200];

    sharegpt_key(r);
    if (r->form)
        return 0;
    for (enum chat_form f = CHAT_FORM_MESSAGES; f < FORMS; f++)
        if ((r->takes & BIT(f)) && has_keys(r, f))
            fits[n++] = f;
    if (n == 2 && fits[0] == CHAT_FORM_MESSAGES && fits[1] == CHAT_FORM_SHAREGPT &&
        r->key[KEY_MESSAGES] == r->key[KEY_CONVERSATIONS]) {
        const json_t *list = json_object_get(r->object, r->key[KEY_MESSAGES]);

        fits[0] = json_object_get(json_array_get(list, 0), "from") ? CHAT_FORM_SHAREGPT
                                                                   : CHAT_FORM_MESSAGES;
        n = 1;
    }
    if (n == 1)
        return r->form = fits[0], 0;
    if (n > 1)
        return row_refuse(r, err, "this row fits the forms %s and %s: --rows says which one the "
                          "file has", chat_form_name(fits[0]), chat_form_name(fits[1]));
    if (r->columns == 1 && strpbrk(r->column[0], ";\t"))
        return row_refuse(r, err, "the one column is named \"%.40s\": a .csv has commas between "
                          "its columns, and this file seems to have %s", r->column[0],
                          strchr(r->column[0], ';') ? "semicolons" : "tabs");
    keys_list(r, keys, sizeof keys);
    keys_hint(r, hint, sizeof hint);
    return row_refuse(r, err, "this row has the keys %s, and fits no form of rows: messages, "
                      "conversations, instruction and output, prompt and completion, text, or "
                      "chosen and rejected are expected (--messages-column, --prompt-column, "
                      "--completion-column and --text-column name other keys)%s", keys, hint);
}

/* ---- a .csv */

static int header_read(struct chat_rows *r, struct err *err)
{
    int rc = row_file_next(&r->file, err);

    if (rc <= 0)
        return rc ? rc : err_misuse(err, "%s is empty", r->path);
    r->column = calloc(r->file.n_fields, sizeof *r->column);
    if (!r->column)
        return err_set(err, -ENOMEM, "no memory for the names of columns");
    for (r->columns = 0; r->columns < r->file.n_fields; r->columns++) {
        const char *name = row_file_field(&r->file, r->columns);

        if (*name && table_find(r->column, r->columns, sizeof *r->column, name))
            return row_refuse(r, err, "two columns are named \"%.40s\"", name);
        if (!(r->column[r->columns] = strdup(name)))
            return err_set(err, -ENOMEM, "no memory for the names of columns");
    }
    return 0;
}

/* Makes an object of a row. A column without a name numbers the rows, and is left out. */
static int csv_object(struct chat_rows *r, struct err *err)
{
    if (r->file.n_fields != r->columns)
        return row_refuse(r, err, "%zu columns, %zu are expected", r->file.n_fields, r->columns);
    r->object = json_object();
    int failed = !r->object;

    for (size_t i = 0; i < r->columns; i++)
        if (*r->column[i])
            failed |= json_object_set_new(r->object, r->column[i],
                                          json_string(row_file_field(&r->file, i)));
    return failed ? err_set(err, -ENOMEM, "no memory for a row") : 0;
}

static int json_object_of(struct chat_rows *r, struct err *err)
{
    const char *text = row_file_field(&r->file, 0);
    char        what[600];

    text += utf8_mark(text, strlen(text)); // files with byte order marks, one behind the other
    if (!strcmp(text, "{"))
        return row_refuse(r, err, "an object that is not in a list stands on one line: jq -c . "
                          "writes it so");
    snprintf(what, sizeof what, "%.500s:%zu", r->path, r->file.line);
    return json_parse_object(&r->object, text, strlen(text), what, err);
}

/* ---- the file */

static int contents_check(FILE *f, const struct unpack *packed, const char *path, int *json,
                          struct err *err)
{
    struct row_head head;
    int             rc = row_file_head(&head, f, packed, path, FILE_FOR_CHAT, err);

    if (rc)
        return rc;
    if (!head.n)
        return err_misuse(err, "%s is empty", path);
    *json = head.at == head.n || head.text[head.at] == '{' || head.text[head.at] == '[';
    if (*json || !(unpack_named(path, ".json") || unpack_named(path, ".jsonl") ||
                   unpack_named(path, ".ndjson")))
        return 0;
    return err_misuse(err, "%s: its name says JSON, but it does not begin with an object or a "
                      "list: remove what stands before its first row, such as a comment, or name "
                      "it .csv if it is one", path);
}

int chat_rows_open(struct chat_rows **out, const char *path, enum chat_form form,
                   const struct chat_names *names, struct err *err)
{
    static const struct chat_names own;
    struct chat_rows              *r = calloc(1, sizeof *r);
    struct unpack                 *packed = NULL;
    FILE                          *f = NULL;
    int                            json = 0, rc;

    *out = NULL;
    if (!r || !(r->path = strdup(unpack_shown(path)))) {
        free(r);
        return err_set(err, -ENOMEM, "no memory to read %s", path);
    }
    r->form = form;
    rc = names_take(r, names ? names : &own, err);
    rc = rc ? rc : unpack_open(&f, &packed, path, err);
    rc = rc ? rc : contents_check(f, packed, r->path, &json, err);
    if (rc && f)
        fclose(f);
    rc = rc ? rc : row_file_open_stream(&r->file, f, packed, r->path, json ? ROWS_JSON : ROWS_CSV,
                                        err);
    if (!rc && !json)
        rc = header_read(r, err);
    if (rc < 0 && r->file.f)
        unpack_failed(r->file.packed, err); // says more than that reading failed
    if (rc)
        chat_rows_close(r);
    else
        *out = r;
    return rc;
}

void chat_rows_limit(struct chat_rows *r, size_t bytes, const char *why)
{
    if (bytes < r->file.most) {
        r->file.most = bytes;
        r->file.why = why;
    }
}

void chat_rows_close(struct chat_rows *r)
{
    if (!r)
        return;
    row_file_close(&r->file);
    for (size_t i = 0; i < r->columns; i++)
        free(r->column[i]);
    free(r->column);
    json_decref(r->object);
    json_decref(r->tools);
    turns_free(&r->turns);
    turns_free(&r->other);
    free(r->prompt);
    free(r->path);
    free(r);
}

static int is_blank(const struct chat_rows *r)
{
    const char *text = row_file_field(&r->file, 0);

    return !r->column && !text[strspn(text, " \t")];
}

int chat_rows_next(struct chat_rows *r, const struct chat_row **row, struct err *err)
{
    int rc;

    do
        rc = row_file_next(&r->file, err);
    while (rc > 0 && is_blank(r));
    json_decref(r->object);
    r->object = NULL;
    if (!rc)
        return r->any ? 0 : err_misuse(err, "%s has no rows", r->path);
    if (rc > 0)
        rc = r->column ? csv_object(r, err) : json_object_of(r, err);
    rc = rc ? rc : form_find(r, err);
    rc = rc ? rc : row_make(r, err);
    if (rc)
        return row_file_explain(&r->file, rc, err);
    r->any = 1;
    *row = &r->row;
    return 1;
}
