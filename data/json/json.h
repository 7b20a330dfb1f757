/* json.h: the only access to JSON (jansson): reads whole files with a size limit, reports errors
 * with file and line, and writes under a temporary name. Files that need JSON include this
 * header instead of jansson.h. */
#pragma once

#include "data/base/err.h"

#include <jansson.h>
#include <math.h>

/* Parses a file of at most max_bytes. The caller calls json_decref on *out. Errors are -errno
 * with a sentence that names file and line. */
int json_read(json_t **out, const char *path, size_t max_bytes, struct err *err);
/* Parses a file as json_read does, and refuses it unless it is an object. */
int json_read_object(json_t **out, const char *path, size_t max_bytes, struct err *err);
/* Parses text[0..n). `what` names the text's origin in the sentence of an error. A whole number
 * too large for json_int_t, as Python writes some, becomes a real number. */
int json_parse(json_t **out, const char *text, size_t n, const char *what, struct err *err);
/* Parses a text that must be an object. */
int json_parse_object(json_t **out, const char *text, size_t n, const char *what, struct err *err);
/* Returns the value as json_write writes it, malloced, or NULL if there is no memory. */
char *json_written(const json_t *value, size_t flags);
/* Writes the value to path (temporary name, fsync, rename). `flags` are jansson's:
 * JSON_INDENT(2), or JSON_FIGURES for numbers that people read. */
int json_write(const json_t *value, const char *path, size_t flags, struct err *err);
enum { JSON_FIGURES = JSON_SORT_KEYS | JSON_REAL_PRECISION(15) }; // 0.1 is 0.1

/* Return a number or a text of an object. If the key is missing or has another type, they return
 * 0 or "". */
static inline double json_num(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* Returns a number of an object, or NaN if it is null or missing. A NaN in a database becomes
 * null. */
static inline double json_figure(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);

    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

/* Returns whether a member is true. If it is neither true nor false, or is not there, returns
 * `otherwise`. */
static inline int json_flag(const json_t *object, const char *key, int otherwise)
{
    const json_t *v = json_object_get(object, key);

    return json_is_boolean(v) ? json_is_true(v) : otherwise;
}

static inline const char *json_str(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/* Returns a value; or NULL, and frees it, if something of it failed. */
static inline json_t *json_whole(json_t *value, int failed)
{
    if (!failed)
        return value;
    json_decref(value);
    return NULL;
}

/* Returns the first of an array's objects whose text under `key` is `text`, or NULL. */
static inline json_t *json_where(const json_t *rows, const char *key, const char *text)
{
    json_t *row;
    size_t  i;

    json_array_foreach(rows, i, row)
        if (!strcmp(json_str(row, key), text))
            return row;
    return NULL;
}
