/* lex.c: cuts a template into tokens as jinja2's lexer does. Its rules of white space:
 *
 *   - a tag that begins with a minus ({%- or {{- or {#-) takes away all white space before it; one
 *     that ends with a minus (-%} ...) all white space behind it;
 *   - lstrip_blocks: {% and {# take away the blanks between them and the beginning of their line,
 *     but for {%+;
 *   - trim_blocks: %} and #} take away one newline behind them, but for +%};
 *   - one newline at the template's very end does not count. */
#include "chat/jinja/lex.h"

#include "data/base/utf8.h"

#include <ctype.h>

static int fails(const struct lexer *l, struct err *err, const char *what)
{
    return err_misuse(err, "%s, line %d: %s", l->name, l->line, what);
}

int lexer_begin(struct lexer *l, const char *text, size_t n, const char *name, struct pool *pool,
                struct err *err)
{
    char  *s = pool_take(pool, n + 1);
    size_t to = 0;

    *l = (struct lexer){ .s = s, .line = 1, .line_starts = 1, .name = name, .pool = pool };
    if (!s)
        return err_set(err, -ENOMEM, "%s: out of memory for a template of %zu bytes", name, n);
    for (size_t i = 0; i < n; i++) {
        if (!text[i])
            return err_misuse(err, "%s: a template is text, and its byte %zu is a NUL", name, i);
        s[to++] = text[i] == '\r' ? '\n' : text[i];
        i += text[i] == '\r' && i + 1 < n && text[i + 1] == '\n';
    }
    l->n = to - (to && s[to - 1] == '\n');
    return 0;
}

/* ---- between tags ---- */

static int is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static int starts(const struct lexer *l, size_t at, const char *with)
{
    size_t n = strlen(with);

    return l->n - at >= n && !memcmp(l->s + at, with, n);
}

/* Moves on to `to` and counts lines. */
static void go(struct lexer *l, size_t to)
{
    for (; l->at < to; l->at++)
        l->line += l->s[l->at] == '\n';
}

/* Skips white space, or a newline, behind the end of a tag. */
static void tag_ends(struct lexer *l, int minus, int trims)
{
    size_t at = l->at;

    if (minus)
        while (at < l->n && is_space(l->s[at]))
            at++;
    else if (trims && at < l->n && l->s[at] == '\n')
        at++;
    l->line_starts = at > 0 && l->s[at - 1] == '\n';
    go(l, at);
}

/* The end of a text [from, to) before a tag that begins there with `sign`. */
static size_t text_end(const struct lexer *l, size_t from, size_t to, char sign, int strips)
{
    size_t at = to;

    if (sign == '-')
        while (at > from && is_space(l->s[at - 1]))
            at--;
    else if (sign != '+' && strips) {
        while (at > from && is_space(l->s[at - 1]) && l->s[at - 1] != '\n')
            at--;
        if (at > from ? l->s[at - 1] != '\n' : !l->line_starts)
            at = to;
    }
    return at;
}

/* Returns the place where the tag that begins at `at` ends, if this word is all of it, or 0. */
static size_t block_is(const struct lexer *l, size_t at, const char *word)
{
    size_t i = at + 2, n = strlen(word);

    i += i < l->n && (l->s[i] == '-' || l->s[i] == '+');
    while (i < l->n && is_space(l->s[i]))
        i++;
    if (!starts(l, i, word))
        return 0;
    for (i += n; i < l->n && is_space(l->s[i]); i++)
        ;
    return starts(l, i, "%}") || starts(l, i, "-%}") || starts(l, i, "+%}") ? i : 0;
}

/* Takes the text within {% raw %}, where l is now, into *out. */
static int raw_text(struct lexer *l, size_t end, struct token *out, struct err *err)
{
    size_t from, at, close = 0;

    go(l, end + (l->s[end] == '-' ? 3 : 2));
    if (l->s[end] == '-')
        tag_ends(l, 1, 0);
    from = l->at;
    l->line_starts = from > 0 && l->s[from - 1] == '\n';
    for (at = from; at < l->n; at++)
        if (starts(l, at, "{%") && (close = block_is(l, at, "endraw")))
            break;
    if (at >= l->n)
        return fails(l, err, "{% raw %} has no {% endraw %}");
    out->text = l->s + from;
    out->n = text_end(l, from, at, l->s[at + 2], 1) - from;
    go(l, close + (l->s[close] == '%' ? 2 : 3));
    tag_ends(l, l->s[close] == '-', l->s[close] == '%');
    return 0;
}

static int comment(struct lexer *l, size_t at, struct err *err)
{
    size_t end = at + 2;

    while (end < l->n && !starts(l, end, "#}"))
        end++;
    if (end >= l->n)
        return fails(l, err, "a comment {# has no end");
    char sign = end > at + 2 ? l->s[end - 1] : ' ';

    go(l, end + 2);
    tag_ends(l, sign == '-', sign != '+');
    return 0;
}

/* Takes the text up to the next tag or, if it is empty, that tag. */
static int between(struct lexer *l, struct token *out, struct err *err)
{
    for (;;) {
        size_t from = l->at, at = from;

        while (at < l->n && !(l->s[at] == '{' && at + 1 < l->n && strchr("{%#", l->s[at + 1])))
            at++;
        char   kind = at < l->n ? l->s[at + 1] : 0;
        size_t sign_at = at + 2;
        char   sign = kind && sign_at < l->n ? l->s[sign_at] : ' ';

        out->n = (kind ? text_end(l, from, at, sign, kind != '{') : at) - from;
        if (out->n) { // the tag itself comes with the next call, after a text that stays as it is
            *out = (struct token){ TOKEN_TEXT, l->s + from, out->n, 0, 0, l->line };
            go(l, at);
            l->line_starts = 0;
            if (kind && l->s[at - 1] == '\n')
                l->line_starts = 1;
            return 0;
        }
        go(l, at);
        out->line = l->line;
        if (!kind) {
            out->kind = TOKEN_END;
            return 0;
        }
        size_t raw = kind == '%' ? block_is(l, at, "raw") : 0;

        raw = raw && l->s[raw] == '+' ? 0 : raw; // jinja2 does not know +%} behind raw
        int    rc = raw ? raw_text(l, raw, out, err) : kind == '#' ? comment(l, at, err) : 0;

        if (rc)
            return rc;
        if (raw && out->n) {
            out->kind = TOKEN_TEXT;
            return 0;
        }
        if (raw || kind == '#')
            continue;
        go(l, sign_at + (sign == '-' || sign == '+'));
        l->inside = kind == '{' ? TOKEN_PRINT_END : TOKEN_BLOCK_END;
        l->depth = 0;
        out->kind = kind == '{' ? TOKEN_PRINT_BEGIN : TOKEN_BLOCK_BEGIN;
        return 0;
    }
}

/* ---- within a tag ---- */

/* Reads an escape of Python's at s, behind its backslash. Returns the bytes read, or 0 if it is
 * none: the backslash is then a character. */
static size_t escape(const char *s, size_t n, char *to, size_t *wrote)
{
    static const char names[] = "abfnrtv\\'\"", values[] = "\a\b\f\n\r\t\v\\'\"";
    const char *at = n ? memchr(names, s[0], sizeof names - 1) : NULL;
    size_t      digits = n && s[0] == 'x' ? 2 : n && s[0] == 'u' ? 4 : n && s[0] == 'U' ? 8 : 0;
    char        hex[9] = { 0 }, *end;

    *wrote = 1;
    if (at)
        return *to = values[at - names], 1;
    if (n && s[0] == '\n')
        return *wrote = 0, 1;
    if (n && s[0] >= '0' && s[0] <= '7') {
        unsigned long cp = 0;
        size_t        i = 0;

        for (; i < 3 && i < n && s[i] >= '0' && s[i] <= '7'; i++)
            cp = cp * 8 + (unsigned long)(s[i] - '0');
        *wrote = utf8_encode(to, (uint32_t)cp);
        return i;
    }
    if (!digits || n <= digits)
        return 0;
    memcpy(hex, s + 1, digits);
    unsigned long cp = strtoul(hex, &end, 16);

    if (end != hex + digits || !isxdigit((unsigned char)hex[0]) || cp > 0x10FFFF ||
        (cp >= 0xD800 && cp < 0xE000))
        return 0;
    *wrote = utf8_encode(to, (uint32_t)cp);
    return digits + 1;
}

static int string(struct lexer *l, struct token *out, struct err *err)
{
    char   quote = l->s[l->at], *to;
    size_t from = l->at + 1, end = from, n = 0;

    while (end < l->n && l->s[end] != quote)
        end += l->s[end] == '\\' ? 2 : 1;
    if (end >= l->n)
        return fails(l, err, "a string has no closing quote");
    if (!(to = pool_take(l->pool, end - from + 1)))
        return err_set(err, -ENOMEM, "%s: out of memory", l->name);
    for (size_t i = from, read, wrote; i < end; i++) {
        if (l->s[i] != '\\') {
            to[n++] = l->s[i];
            continue;
        }
        if (!(read = escape(l->s + i + 1, end - i - 1, to + n, &wrote)))
            to[n++] = '\\';
        else
            n += wrote;
        i += read;
    }
    go(l, end + 1);
    *out = (struct token){ TOKEN_STRING, to, n, 0, 0, out->line };
    return 0;
}

static int number(struct lexer *l, struct token *out, struct err *err)
{
    char   text[64], *end;
    size_t n = 0, at = l->at;
    int    real = 0;

    for (; at < l->n && n < sizeof text - 1; at++) {
        char c = l->s[at];
        int  exponent = n && real >= 0 && (c == 'e' || c == 'E') && at + 1 < l->n &&
                       (isdigit((unsigned char)l->s[at + 1]) ||
                        (strchr("+-", l->s[at + 1]) && at + 2 < l->n &&
                         isdigit((unsigned char)l->s[at + 2])));
        int  point = c == '.' && !real && at + 1 < l->n && isdigit((unsigned char)l->s[at + 1]);

        if (c == '_')
            continue;
        if (!isdigit((unsigned char)c) && !point && !exponent)
            break;
        text[n++] = c;
        if (exponent && strchr("+-", l->s[at + 1]))
            text[n++] = l->s[++at];
        real = exponent ? -1 : point ? 1 : real;
    }
    text[n] = 0;
    errno = 0;
    *out = (struct token){ real ? TOKEN_FLOAT : TOKEN_INT, l->s + l->at, n, 0, 0, out->line };
    if (real)
        out->real = strtod(text, &end);
    else
        out->number = strtoll(text, &end, 10);
    if (errno || *end || (at < l->n && (isalpha((unsigned char)l->s[at]) || n == sizeof text - 1)))
        return fails(l, err, "a number is too large, or not one");
    go(l, at);
    return 0;
}

static int operator(struct lexer *l, struct token *out, struct err *err)
{
    static const char *const all[] = { "**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%",
                                       "~", "<", ">", "=", "(", ")", "[", "]", "{", "}", ".", ",",
                                       ":", "|" };
    char text[64];

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (starts(l, l->at, all[i])) {
            *out = (struct token){ TOKEN_OPERATOR, all[i], strlen(all[i]), 0, 0, out->line };
            l->depth += strchr("([{", *all[i]) ? 1 : strchr(")]}", *all[i]) ? -1 : 0;
            go(l, l->at + out->n);
            return 0;
        }
    unsigned char c = (unsigned char)l->s[l->at];

    snprintf(text, sizeof text, isprint(c) ? "%c is unexpected" : "byte 0x%02x is unexpected", c);
    return fails(l, err, text);
}

int lexer_next(struct lexer *l, struct token *out, struct err *err)
{
    *out = (struct token){ .line = l->line };
    if (!l->inside)
        return between(l, out, err);
    while (l->at < l->n && is_space(l->s[l->at]))
        go(l, l->at + 1);
    out->line = l->line;
    if (l->at >= l->n)
        return fails(l, err, "the template ends within a tag");
    const char *close = l->inside == TOKEN_PRINT_END ? "}}" : "%}";
    char        c = l->s[l->at];
    int         sign = c == '-' || (c == '+' && l->inside == TOKEN_BLOCK_END);

    if (l->depth <= 0 && starts(l, l->at + (size_t)sign, close)) {
        out->kind = (enum token_kind)l->inside;
        go(l, l->at + (size_t)sign + 2);
        tag_ends(l, c == '-', l->inside == TOKEN_BLOCK_END && c != '+');
        l->inside = 0;
        return 0;
    }
    if (c == '"' || c == '\'')
        return string(l, out, err);
    if (isdigit((unsigned char)c))
        return number(l, out, err);
    if (isalpha((unsigned char)c) || c == '_') {
        size_t at = l->at;
        char  *text;

        while (at < l->n && (isalnum((unsigned char)l->s[at]) || l->s[at] == '_'))
            at++;
        if (!(text = pool_grow(l->pool, l->s + l->at, at - l->at, at - l->at + 1)))
            return err_set(err, -ENOMEM, "%s: out of memory", l->name);
        *out = (struct token){ TOKEN_NAME, text, at - l->at, 0, 0, out->line };
        go(l, at);
        return 0;
    }
    return operator(l, out, err);
}
