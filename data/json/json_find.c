/* json_find.c: walks over an object with a stack of one bit for each level. The text is checked to
 * be UTF-8 first, so that only quotes, escapes and control characters matter in a string. */
#include "data/json/json_find.h"

#include "data/base/text_line.h"
#include "data/base/utf8.h"

#include <string.h>

enum { DEPTH = 64, DIGITS = 18 };

/* A string's inside, without quotes. */
struct span { const char *from; size_t n; int escaped; };

/* The code unit of the four hexadecimal digits at p, or -1. */
static int32_t hex4(const char *p, const char *end)
{
    int32_t v = 0;

    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = p[i], low = (char)(c | 0x20);
        int  d = c >= '0' && c <= '9' ? c - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;

        if (d < 0)
            return -1;
        v = v * 16 + d;
    }
    return v;
}

/* Reads the escape whose backslash is before p. Writes its bytes to `to`, at most 4. Returns where
 * it ends, or NULL. */
static const char *escape(const char *p, const char *end, char *to, size_t *n)
{
    static const char names[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
    const char       *name = p < end && *p ? strchr(names, *p) : NULL;

    if (name) {
        *to = bytes[name - names];
        *n = 1;
        return p + 1;
    }
    int32_t cp = p < end && *p == 'u' ? hex4(p + 1, end) : -1;

    if (cp < 0)
        return NULL;
    p += 5;
    if (cp >= 0xD800 && cp < 0xDC00) { // the other half must follow
        int32_t low = end - p >= 2 && p[0] == '\\' && p[1] == 'u' ? hex4(p + 2, end) : -1;

        if (low < 0xDC00 || low > 0xDFFF)
            return NULL;
        cp = 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
        p += 6;
    }
    if (!cp || (cp >= 0xD800 && cp < 0xE000)) // also NUL, which no text has
        return NULL;
    *n = utf8_encode(to, (uint32_t)cp);
    return p;
}

/* Where the string that begins at p, behind its quote, ends: behind the other quote, or NULL. */
static const char *string_end(const char *p, const char *end, struct span *s)
{
    char   byte[4];
    size_t n;

    s->from = p;
    s->escaped = 0;
    while (p < end && *p != '"') {
        if ((unsigned char)*p < ' ')
            return NULL;
        if (*p != '\\') {
            p++;
            continue;
        }
        s->escaped = 1;
        if (!(p = escape(p + 1, end, byte, &n)))
            return NULL;
    }
    s->n = (size_t)(p - s->from);
    return p < end ? p + 1 : NULL;
}

static const char *digits(const char *p, const char *end, size_t most)
{
    const char *from = p;

    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p > from && (size_t)(p - from) <= most ? p : NULL;
}

/* Where a number ends that a double can hold, or NULL. */
static const char *number_end(const char *p, const char *end)
{
    p += *p == '-';
    if (p < end && *p == '0')
        p++;
    else if (!(p = digits(p, end, DIGITS)))
        return NULL;
    if (p < end && *p == '.' && !(p = digits(p + 1, end, (size_t)(end - p))))
        return NULL;
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        p += p < end && (*p == '+' || *p == '-');
        return digits(p, end, 2);
    }
    return p;
}

static const char *word_end(const char *p, const char *end)
{
    static const char *const words[] = { "true", "false", "null" };

    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);

        if ((size_t)(end - p) >= n && !memcmp(p, words[i], n))
            return p + n;
    }
    return NULL;
}

/* Where the value that begins at p ends, if it is not an object or a list. *is: it is a string. */
static const char *plain_end(const char *p, const char *end, struct span *s, int *is)
{
    *is = *p == '"';
    if (*is)
        return string_end(p + 1, end, s);
    return *p == '-' || (*p >= '0' && *p <= '9') ? number_end(p, end) : word_end(p, end);
}

/* Reads a key and its colon. Returns where the value begins, or NULL. */
static const char *key_end(const char *p, const char *end, struct span *key)
{
    p = text_past_blanks(p, end);
    if (p == end || *p != '"' || !(p = string_end(p + 1, end, key)))
        return NULL;
    p = text_past_blanks(p, end);
    if (p == end || *p != ':')
        return NULL;
    p = text_past_blanks(p + 1, end);
    return p < end ? p : NULL;
}

/* Closes all objects and lists that end at p. Returns where the next key or value may begin, or, if
 * *depth became 0, where the whole ends. NULL: neither a comma nor an end is there. */
static const char *closed(const char *p, const char *end, const char *opened, size_t *depth)
{
    while (*depth) {
        p = text_past_blanks(p, end);
        if (p == end)
            return NULL;
        if (*p == ',')
            return p + 1;
        if (*p++ != opened[*depth - 1] + 2) // the sign that closes is two behind the one that opens
            return NULL;
        --*depth;
    }
    return p;
}

/* Walks over the object at p. *found: the string under the key. Returns whether it is valid. */
static int walk(const char *p, const char *end, const char *key, size_t n_key, struct span *found)
{
    char        opened[DEPTH]; // '{' or '['
    struct span name = { 0 }, value;
    size_t      depth = 0;
    int         is, seen = 0;

    p = text_past_blanks(p, end);
    if (p == end || *p != '{')
        return 0;
    for (;;) {
        // a value begins at p
        if (*p == '{' || *p == '[') {
            if (depth == DEPTH ||
                (depth == 1 && name.n == n_key && !memcmp(name.from, key, n_key)))
                return 0;
            opened[depth++] = *p;
            p = text_past_blanks(p + 1, end);
            if (p < end && *p == opened[depth - 1] + 2) { // it is empty
                depth--;
                if (!(p = closed(p + 1, end, opened, &depth)))
                    return 0;
            }
        } else {
            if (!(p = plain_end(p, end, &value, &is)))
                return 0;
            if (depth == 1 && name.n == n_key && !memcmp(name.from, key, n_key)) {
                if (seen++ || !is)
                    return 0;
                *found = value;
            }
            if (!(p = closed(p, end, opened, &depth)))
                return 0;
        }
        if (!depth)
            return text_past_blanks(p, end) == end && seen;
        if (opened[depth - 1] == '{' && !(p = key_end(p, end, &name)))
            return 0;
        if (depth == 1 && name.escaped)
            return 0;
        p = text_past_blanks(p, end);
        if (p == end)
            return 0;
    }
}

const char *json_find_text(const char *json, size_t n, const char *key, char *room, size_t *n_out)
{
    const char *end = json + n, *p, *stop;
    char       *to = room;
    struct span s = { 0 };
    size_t      part;
    int         why;

    if (utf8_valid(json, n, &why) < n || !walk(json, end, key, strlen(key), &s))
        return NULL;
    *n_out = s.n;
    if (!s.escaped)
        return s.from;
    for (p = s.from, stop = s.from + s.n; p < stop;) {
        const char *next = memchr(p, '\\', (size_t)(stop - p));

        part = (size_t)((next ? next : stop) - p);
        memcpy(to, p, part);
        to += part;
        p += part;
        if (next) {
            p = escape(p + 1, stop, to, &part);
            to += part;
        }
    }
    *n_out = (size_t)(to - room);
    return room;
}
