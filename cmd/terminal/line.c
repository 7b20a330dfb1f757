/* line.c: formats a line, makes it visible, and writes it at once, because several processes (the
 * ranks of a job) may write to the same terminal. */
#include "cmd/terminal/line.h"

#include "data/base/visible.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void say_line(FILE *out, const char *fmt, ...)
{
    va_list ap;
    char   *text = NULL;

    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0)
        return;
    size_t most = 4 * (size_t)n + 2; // a byte is at most \xNN; then a line break and a 0
    char  *shown = malloc(most);
    if (shown) {
        size_t at = visible_text(shown, most - 1, text, (size_t)n);
        shown[at] = '\n';
        fwrite(shown, 1, at + 1, out);
    }
    free(shown);
    free(text);
}

void say_text(FILE *out, const char *text) { visible_write(out, text, strlen(text), "\n\t"); }

void say_json(const json_t *value, size_t flags)
{
    json_dumpf(value, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII | flags);
    putchar('\n');
}
