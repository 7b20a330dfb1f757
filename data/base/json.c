/* json.c: JSON by jansson, with what a trainer asks of it: a size limit before anything is read, no
 * duplicate keys (the later one would silently win), errors that name file and line. jansson itself
 * limits nesting (2,048), so hostile input costs no stack. */
#include "data/base/json.h"

#include "data/base/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { INTEGER_DIGITS = 18 }; // that an int64 holds, whatever they are

/* The string that begins at text[i], up to its closing quote, copied to *to; where it ends. */
static size_t string_copy(char **to, const char *text, size_t i, size_t n)
{
    for (*(*to)++ = text[i++]; i < n && text[i] != '"';) {
        if (text[i] == '\\' && i + 1 < n)
            *(*to)++ = text[i++];
        *(*to)++ = text[i++];
    }
    return i;
}

/* The text with an exponent behind each whole number of more digits, so that it is a real one;
 * malloced. */
static char *longer_as_real(const char *text, size_t n, size_t *made)
{
    char *out = malloc(n + n / INTEGER_DIGITS * 2 + 1), *to = out;

    for (size_t i = 0, digits, number; out && i < n; i += number) {
        if (text[i] == '"')
            i = string_copy(&to, text, i, n);
        for (digits = number = 0;
             i + number < n && text[i + number] && strchr("0123456789+-.eE", text[i + number]);
             number++)
            digits += text[i + number] >= '0' && text[i + number] <= '9';
        memcpy(to, text + i, number);
        to += number;
        if (digits > INTEGER_DIGITS && digits + (text[i] == '-') == number) {
            memcpy(to, "e0", 2);
            to += 2;
        }
        if (i + number < n)
            *to++ = text[i + number++]; // what is behind it
    }
    *made = out ? (size_t)(to - out) : 0;
    return out;
}

/* Python's integers have no end: its tokenizers' folders say "model_max_length":
 * 1000000000000000019884624838656. */
static json_t *load(const char *text, size_t n, json_error_t *e)
{
    json_t *value = json_loadb(text, n, JSON_REJECT_DUPLICATES, e);
    char   *real = NULL;
    size_t  made;

    if (!value && json_error_code(e) == json_error_numeric_overflow)
        real = longer_as_real(text, n, &made);
    if (real)
        value = json_loadb(real, made, JSON_REJECT_DUPLICATES, e);
    free(real);
    return value;
}

int json_parse(json_t **out, const char *text, size_t n, const char *what, struct err *err)
{
    json_error_t e;

    *out = load(text, n, &e);
    if (!*out)
        return err_misuse(err, "%s is not valid JSON: line %d, column %d: %s", what, e.line,
                          e.column, e.text);
    return 0;
}

int json_read(json_t **out, const char *path, size_t max_bytes, struct err *err)
{
    char  *text;
    size_t n;
    int    rc = file_read_whole(&text, &n, path, max_bytes, err);

    *out = NULL;
    if (!rc)
        rc = json_parse(out, text, n, path, err);
    free(text);
    return rc;
}

static int write_whole(const json_t *value, const char *path, size_t flags, struct err *err)
{
    char *text = json_dumps(value, flags | JSON_ENCODE_ANY), *line = NULL;
    int   rc = text && asprintf(&line, "%s\n", text) >= 0
                   ? file_write_whole(path, line, strlen(line), err)
                   : err_set(err, -ENOMEM, "no memory to write %s as JSON", path);

    free(text);
    free(line);
    return rc;
}

int json_write(const json_t *value, const char *path, struct err *err)
{
    return write_whole(value, path, JSON_INDENT(2), err);
}

int json_write_sorted(const json_t *value, const char *path, int indent, struct err *err)
{
    return write_whole(value, path, JSON_INDENT((size_t)indent) | JSON_SORT_KEYS |
                       JSON_REAL_PRECISION(15), err);
}
