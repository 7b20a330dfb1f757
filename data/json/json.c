/* json.c: reads and writes JSON with jansson. Files are limited in size before they are read.
 * Duplicate keys are refused (the later one would silently win). Errors name file and line. jansson
 * itself limits nesting (2,048), so hostile input costs no stack. */
#include "data/json/json.h"

#include "data/file/file.h"
#include "data/file/file_kind.h"

#include <math.h>

#define WHOLE_MOST 9007199254740992.0 // 2^53: up to here a double is exact

static int is_whole(const json_t *v)
{
    return json_is_real(v) && fabs(json_real_value(v)) < WHOLE_MOST &&
           json_real_value(v) == floor(json_real_value(v));
}

/* Turns the real numbers in v that are whole into integers. */
static void wholes_restore(json_t *v)
{
    const char *key;
    json_t     *in;
    size_t      i;

    json_object_foreach(v, key, in)
        if (is_whole(in))
            json_object_set_new(v, key, json_integer((json_int_t)json_real_value(in)));
        else
            wholes_restore(in);
    json_array_foreach(v, i, in)
        if (is_whole(in))
            json_array_set_new(v, i, json_integer((json_int_t)json_real_value(in)));
        else
            wholes_restore(in);
}

/* Parses text. Python's integers are unlimited: its tokenizers' folders have "model_max_length":
 * 1000000000000000019884624838656. */
static json_t *load(const char *text, size_t n, json_error_t *e)
{
    json_t *value = json_loadb(text, n, JSON_REJECT_DUPLICATES, e);

    if (value || json_error_code(e) != json_error_numeric_overflow)
        return value;
    value = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, e);
    wholes_restore(value);
    return value;
}

/* jansson's sentence, or a better one. */
static const char *why(const json_error_t *e)
{
    if (json_error_code(e) == json_error_null_character)
        return "\\u0000 (NUL) is no character of a text";
    if (strstr(e->text, "near 'NaN'") || strstr(e->text, "near 'Infinity'"))
        return "NaN and Infinity are Python's, and no JSON: write null";
    return e->text;
}

int json_parse(json_t **out, const char *text, size_t n, const char *what, struct err *err)
{
    json_error_t e;

    *out = load(text, n, &e);
    if (!*out)
        return err_misuse(err, "%s is not valid JSON: line %d, column %d: %s", what, e.line,
                          e.column, why(&e));
    return 0;
}

static int expect_object(json_t **value, const char *what, struct err *err)
{
    if (json_is_object(*value))
        return 0;
    json_decref(*value);
    *value = NULL;
    return err_misuse(err, "%s: a JSON object is expected", what);
}

int json_parse_object(json_t **out, const char *text, size_t n, const char *what, struct err *err)
{
    int rc = json_parse(out, text, n, what, err);

    return rc ? rc : expect_object(out, what, err);
}

int json_read(json_t **out, const char *path, size_t max_bytes, struct err *err)
{
    char  *text;
    size_t n;
    int    rc = file_read_whole(&text, &n, path, max_bytes, err);

    *out = NULL;
    rc = rc ? rc : file_kind_check_bytes(text, n, path, FILE_FOR_JSON, err);
    rc = rc ? rc : json_parse(out, text, n, path, err);
    free(text);
    return rc;
}

int json_read_object(json_t **out, const char *path, size_t max_bytes, struct err *err)
{
    int rc = json_read(out, path, max_bytes, err);

    return rc ? rc : expect_object(out, path, err);
}

char *json_written(const json_t *value, size_t flags)
{
    char *text = json_dumps(value, flags | JSON_ENCODE_ANY), *line = NULL;

    if (text && asprintf(&line, "%s\n", text) < 0)
        line = NULL;
    free(text);
    return line;
}

int json_write(const json_t *value, const char *path, size_t flags, struct err *err)
{
    char *text = json_written(value, flags);
    int   rc = text ? file_write_whole(path, text, strlen(text), err)
                    : err_set(err, -ENOMEM, "no memory to write %s as JSON", path);

    free(text);
    return rc;
}
