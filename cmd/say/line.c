/* line.c: formatted, then made visible. */
#include "cmd/say/line.h"

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
    visible_write(out, text, (size_t)n, "");
    putc('\n', out);
    free(text);
}

void say_text(FILE *out, const char *text) { visible_write(out, text, strlen(text), "\n\t"); }
