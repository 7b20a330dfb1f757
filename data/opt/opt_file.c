/* opt_file.c: reads a file of options into names and values, and writes such lines; opt.c knows
 * their meaning. Lines are changed in place: names and values are parts of the text as it was
 * read. */
#include "data/opt/opt_file.h"

#include "data/base/utf8.h"
#include "data/file/file.h"
#include "data/file/file_kind.h"

enum { MOST_BYTES = 1 << 20 };

#define BLANKS " \t\r"

static int is_blank(char c) { return c && strchr(BLANKS, c); }

/* Whether only blanks or a comment follow. */
static int line_ends(const char *at) { return strchr("#", at[strspn(at, BLANKS)]) != NULL; }

/* Unquotes "..." at `at`, in place. */
static int value_unquote(char *at, struct err *err)
{
    char *out = at++;

    for (; *at && *at != '"'; at++) {
        if (*at == '\\' && *++at != '"' && *at != '\\')
            return err_misuse(err, "after a backslash in quotes, \" or \\ is expected");
        *out++ = *at;
    }
    if (!*at)
        return err_misuse(err, "the value's closing quote is missing");
    if (!line_ends(at + 1))
        return err_misuse(err, "nothing but a comment is expected after the value's closing quote");
    *out = '\0';
    return 0;
}

/* Ends a value without quotes before a comment and its blanks. */
static void value_trim(char *value)
{
    char *end = value;

    while (*end && !(*end == '#' && (end == value || is_blank(end[-1]))))
        end++;
    while (end > value && is_blank(end[-1]))
        end--;
    *end = '\0';
}

/* Takes the name and value of one line of len bytes. If the line is whole, its end follows. */
static int line_take(char *line, size_t len, int whole, opt_file_option *each, void *ctx,
                     struct err *err)
{
    char *at = line + strspn(line, BLANKS), *value = NULL;
    int   rc = 0;

    if (!whole)
        return err_misuse(err, "the line has no end: the file was cut off, or a line break is "
                               "missing");
    line[len] = '\0';
    if (strlen(line) != len)
        return err_misuse(err, "there is a zero byte: a text is expected");
    if (line_ends(at))
        return 0;
    char *name = at += strncmp(at, "--", 2) ? 0 : 2; // as on the command line
    char *end = at += strcspn(at, BLANKS "=");
    if (end == name)
        return err_misuse(err, "an option's name is expected before =");
    at += strspn(at, BLANKS);
    if (*at == '=' || !line_ends(at)) {
        at += *at == '=';
        value = at + strspn(at, BLANKS);
    }
    *end = '\0';
    if (value && *value == '"')
        rc = value_unquote(value, err);
    else if (value)
        value_trim(value);
    return rc ? rc : each(ctx, name, value, err);
}

int opt_file_each(const char *path, opt_file_option *each, void *ctx, struct err *err)
{
    char      *text = NULL;
    size_t     n = 0, number = 1, len;
    struct err why = { 0 };
    int        rc = file_read_whole(&text, &n, path, MOST_BYTES, err);

    if (rc)
        ;
    else if (!n)
        rc = err_misuse(err, "%s is empty: options are expected, a line each: name = value", path);
    else
        rc = file_kind_check_bytes(text, n, path, FILE_FOR_OPTIONS, err);
    // some editors write an invisible byte order mark before the first line
    for (size_t at = rc ? 0 : utf8_mark(text, n); at < n && !rc; at += len + 1, number++) {
        char *end = memchr(text + at, '\n', n - at);

        len = end ? (size_t)(end - text) - at : n - at;
        rc = line_take(text + at, len, !!end, each, ctx, &why);
        if (rc && why.misuse)
            err_misuse(err, "%s, line %zu: %s", path, number, why.text);
        else if (rc)
            err_set(err, rc, "%s, line %zu: %s", path, number, why.text);
    }
    free(text);
    return rc;
}

void opt_file_write(FILE *out, const char *name, const char *value)
{
    int plain = *value && *value != '"' && !is_blank(*value) && !is_blank(value[strlen(value) - 1]);

    for (const char *p = value; *p && plain; p++)
        plain = !(*p == '#' && (p == value || is_blank(p[-1])));
    fprintf(out, "%s = %s", name, plain ? value : "\"");
    for (const char *p = value; *p && !plain; p++)
        fprintf(out, "%s%c", *p == '"' || *p == '\\' ? "\\" : "", *p);
    fputs(plain ? "\n" : "\"\n", out);
}
