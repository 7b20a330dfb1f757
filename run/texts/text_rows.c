/* text_rows.c: parses rows and checks texts. Every thread does this for the pieces that it
 * tokenises. */
#include "run/texts/text_rows.h"

#include "data/file/file_kind.h"
#include "data/base/hash.h"
#include "data/json/json.h"
#include "data/json/json_find.h"
#include "data/file/unpack.h"
#include "data/base/utf8.h"

/* Refuses bytes that no text has, with their place in the file's contents. 0: there are none. */
static int check_bytes(const struct text_reading *r, const struct text_piece *p, const char *bytes,
                       struct err *err)
{
    int         why;
    size_t      valid = p->n ? utf8_valid(bytes, p->n, &why) : 0;
    const char *zero = valid ? memchr(bytes, 0, valid) : NULL;

    if (zero)
        valid = (size_t)(zero - bytes);
    if (valid == p->n)
        return 0;
    struct file_look look = { .kind = FILE_BYTES, .byte = (unsigned char)bytes[valid],
                              .at = p->at + valid, .line = p->line + text_lines(bytes, valid),
                              .words = p->words };

    struct unpack *u = NULL; // the sentence has the command that unpacks the file, if it is packed
    const char    *format = unpack_begin(&u, r->path, NULL) ? NULL : unpack_format(u);
    int            rc = format ? file_kind_refuse_packed(&look, r->path, format, FILE_FOR_TEXT, err)
                               : file_kind_refuse(&look, r->path, FILE_FOR_TEXT, err);

    unpack_end(u);
    return rc;
}

/* The keys of a row that have texts, as a list. */
static const char *text_keys(const json_t *row, char *out, size_t size)
{
    const char *key;
    json_t     *v;
    size_t      n = 0;

    *out = '\0';
    json_object_foreach((json_t *)(uintptr_t)row, key, v)
        if (json_is_string(v) && n + 64 < size)
            n += (size_t)snprintf(out + n, size - n, "%s\"%.40s\"", n ? ", " : "", key);
    return out;
}

static int refuse_row(const struct text_reading *r, const struct text_piece *p, const json_t *row,
                      struct err *err)
{
    static const char *const types[] = { [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list",
                                         [JSON_INTEGER] = "a number", [JSON_REAL] = "a number",
                                         [JSON_TRUE] = "true", [JSON_FALSE] = "false",
                                         [JSON_NULL] = "null" };
    const json_t *v = json_object_get(row, r->column);
    char          keys[400];

    text_keys(row, keys, sizeof keys);
    if (json_is_array(json_object_get(row, "messages")) ||
        json_is_array(json_object_get(row, "conversations")) ||
        (!v && json_object_get(row, "instruction") && json_object_get(row, "output")) ||
        (!v && json_object_get(row, "prompt") && json_object_get(row, "completion")))
        return err_misuse(err, "%s:%" PRIu64 ": the row is a conversation, and a text under "
                          "\"%.40s\" is expected: finetune --task chat --train-file trains on "
                          "conversations, eval --eval-file evaluates on them", r->path, p->line,
                          r->column);
    if (v)
        return err_misuse(err, "%s:%" PRIu64 ": \"%.40s\" is %s in this row, and a text is "
                          "expected: remove the row, or give it a text in quotes", r->path, p->line,
                          r->column, types[json_typeof(v)]);
    return err_misuse(err, "%s:%" PRIu64 ": the row has no key \"%.40s\"; %s%s: --text-column "
                      "names the text's key, --data-format text takes the file as it is",
                      r->path, p->line, r->column, *keys ? "its texts are " : "it has no texts",
                      keys);
}

/* Finds the text with the parser, which says what is wrong. */
static int row_parse(struct text_found *out, const struct text_reading *r,
                     const struct text_piece *p, const char *bytes, struct err *err)
{
    json_t    *row;
    struct err bad;
    char       what[600];

    if (p->n == 1 && *bytes == '{')
        return err_misuse(err, "%s:%" PRIu64 ": an object that is not in a list stands on one "
                          "line: jq -c . writes it so", r->path, p->line);
    snprintf(what, sizeof what, "%.500s:%" PRIu64, r->path, p->line);
    int rc = json_parse_object(&row, bytes, p->n, what, err);

    if (rc) {
        if (check_bytes(r, p, bytes, &bad)) // says more than that it is not JSON
            *err = bad;
        return rc;
    }
    const json_t *text = json_object_get(row, r->column);

    out->n = json_string_length(text);
    if (!json_is_string(text))
        rc = refuse_row(r, p, row, err);
    else
        memcpy(out->made, json_string_value(text), out->n);
    json_decref(row);
    return rc;
}

static int row_find(struct text_found *out, const struct text_reading *r,
                    const struct text_piece *p, const char *bytes, struct err *err)
{
    out->made = malloc(p->n);
    if (!out->made)
        return err_set(err, -ENOMEM, "%s:%" PRIu64 ": no memory for the row", r->path, p->line);
    out->text = json_find_text(bytes, p->n, r->column, out->made, &out->n);
    if (out->text)
        return 0;
    out->text = out->made;
    return row_parse(out, r, p, bytes, err);
}

int text_find(struct text_found *out, const struct text_reading *r, const struct text_piece *p,
              const char *bytes, struct err *err)
{
    *out = (struct text_found){ .text = bytes, .n = p->n, .side = p->side };
    int rc = p->form == TEXT_ROW     ? row_find(out, r, p, bytes, err)
             : p->form == TEXT_PLAIN ? check_bytes(r, p, bytes, err)
                                     : 0;

    if (!rc && p->form != TEXT_PLAIN)
        out->side = hash_bytes(out->text, out->n) < r->split;
    return rc;
}
