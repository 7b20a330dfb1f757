/* json_find.c: matches the members of an object one after the other with an expression of PCRE2.
 * The text is checked to be UTF-8 first, so that only quotes, escapes and control characters matter
 * in a string. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/json/json_find.h"

#include "data/base/text_line.h"
#include "data/base/utf8.h"

#include <pcre2.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A member and the comma or brace behind it. A key has no escapes. A number is one that a double
 * can hold. An escape is no NUL and no half of a pair. */
#define HEX "[0-9a-fA-F]"
static const char member[] =
    "[ \\t\\n\\r]*+\"([^\"\\\\\\x00-\\x1f]*+)\"(?&ws):(?&ws)(\"(?&in)\"|(?&any))(?&ws)[,}]"
    "(?(DEFINE)(?<ws>[ \\t\\n\\r]*+)"
    "(?<in>(?:[^\"\\\\\\x00-\\x1f]++|\\\\(?:[\"\\\\/bfnrt]|u(?!0000|[dD][89a-fA-F])" HEX "{4}|"
    "u[dD][89abAB]" HEX "{2}\\\\u[dD][c-fC-F]" HEX "{2}))*+)"
    "(?<any>(?>\"(?&in)\"|-?(?:0|[1-9][0-9]{0,17})(?:\\.[0-9]++)?(?:[eE][+-]?[0-9]{1,2})?|"
    "true|false|null|\\[(?&ws)(?:(?&item)(?:,(?&ws)(?&item))*+)?\\]|"
    "\\{(?&ws)(?:(?&pair)(?:,(?&ws)(?&pair))*+)?\\}))"
    "(?<item>(?&any)(?&ws))(?<pair>\"(?&in)\"(?&ws):(?&ws)(?&item)))";
enum { WHOLE, KEY, VALUE, SPANS };

static pcre2_code    *code; // NULL: the parser is asked each time
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void code_make(void)
{
    PCRE2_SIZE at;
    int        why;

    code = pcre2_compile((PCRE2_SPTR)member, PCRE2_ZERO_TERMINATED, PCRE2_ANCHORED, &why, &at,
                         NULL);
    // without just-in-time code the parser is used
    if (code && pcre2_jit_compile(code, PCRE2_JIT_COMPLETE)) {
        pcre2_code_free(code);
        code = NULL;
    }
}

/* Finds the value under the key, json[*from..*to). Returns whether the object is valid and has one
 * that is a string, and no other. */
static int find(const char *json, size_t n, const char *key, size_t *from, size_t *to)
{
    pcre2_match_data *match = code ? pcre2_match_data_create(SPANS, NULL) : NULL;
    const PCRE2_SIZE *span = match ? pcre2_get_ovector_pointer(match) : NULL;
    const char       *end = json + n, *p = text_past_blanks(json, end);
    size_t            length = strlen(key), at = (size_t)(p - json) + 1;
    int               more = match && p < end && *p == '{', seen = 0;

    while (more && pcre2_match(code, (PCRE2_SPTR)json, n, at, 0, match, NULL) > 0) {
        if (span[2 * KEY + 1] - span[2 * KEY] == length &&
            !memcmp(json + span[2 * KEY], key, length)) {
            *from = span[2 * VALUE] + 1;
            *to = span[2 * VALUE + 1] - 1;
            seen += json[*from - 1] == '"' ? 1 : 2;
        }
        at = span[2 * WHOLE + 1];
        more = json[at - 1] == ',';
        if (!more && text_past_blanks(json + at, end) < end)
            seen = 0;
    }
    pcre2_match_data_free(match);
    return !more && seen == 1;
}

/* The number that four hexadecimal digits are. */
static uint32_t unit(const char *digits)
{
    return (uint32_t)strtoul((char[5]){ digits[0], digits[1], digits[2], digits[3] }, NULL, 16);
}

/* Copies the inside of a valid string, with what its escapes stand for. Returns the bytes. */
static size_t unescape(char *to, const char *p, const char *end)
{
    static const char names[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
    char             *at = to;

    for (const char *next; (next = memchr(p, '\\', (size_t)(end - p)));) {
        const char *name = strchr(names, next[1]);

        at = mempcpy(at, p, (size_t)(next - p));
        p = next + 2;
        if (name) {
            *at++ = bytes[name - names];
            continue;
        }
        uint32_t cp = unit(p);
        if (cp >= 0xD800 && cp < 0xDC00) { // half of a pair; the other half's digits end it
            cp = 0x10000 + ((cp - 0xD800) << 10) + (unit(p + 6) - 0xDC00);
            p += 6;
        }
        p += 4;
        at += utf8_encode(at, cp);
    }
    at = mempcpy(at, p, (size_t)(end - p));
    return (size_t)(at - to);
}

const char *json_find_text(const char *json, size_t n, const char *key, char *room, size_t *n_out)
{
    size_t from, to;
    int    why;

    pthread_once(&once, code_make);
    if (utf8_valid(json, n, &why) < n || !find(json, n, key, &from, &to))
        return NULL;
    *n_out = to - from;
    if (!memchr(json + from, '\\', *n_out))
        return json + from;
    *n_out = unescape(room, json + from, json + to);
    return room;
}
