/* json.h: the one way to JSON (jansson): whole files with a size limit, errors with file and line,
 * writing under a temporary name. Whoever needs JSON includes this, not jansson. */
#pragma once

#include "data/base/err.h"

#include <jansson.h>
#include <math.h>

/* Parse a file of at most max_bytes; caller json_decref()s. -errno and a sentence naming file and
 * line. */
int json_read(json_t **out, const char *path, size_t max_bytes, struct err *err);
/* The same of a file that must be an object. */
int json_read_object(json_t **out, const char *path, size_t max_bytes, struct err *err);
/* Parse text[0..n) of which `what` says where it stands. A whole number too large for json_int_t,
 * as Python writes some, is a real one. */
int json_parse(json_t **out, const char *text, size_t n, const char *what, struct err *err);
/* Parses a text that must be an object. */
int json_parse_object(json_t **out, const char *text, size_t n, const char *what, struct err *err);
/* A value as json_write writes it, malloced; NULL: no memory. */
char *json_written(const json_t *value, size_t flags);
/* Write to path (temporary name, fsync, rename); flags are jansson's: JSON_INDENT(2), or those of
 * figures that people read. */
int json_write(const json_t *value, const char *path, size_t flags, struct err *err);
enum { JSON_FIGURES = JSON_SORT_KEYS | JSON_REAL_PRECISION(15) }; // 0.1 is 0.1

/* A number or text of an object; where there is none, or it is of another kind: 0 and "". */
static inline double json_num(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* A number that may be none: NaN where it is null, which a NaN of a database is, or not there. */
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
