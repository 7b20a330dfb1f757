/* err.c: writes the sentence of a failure. It may quote a file's content, so control characters,
 * which would break the line or control the terminal, are made visible. */
#include "data/base/err.h"

#include "data/base/utf8.h"
#include "data/base/visible.h"

#include <limits.h>
#include <stdarg.h>

enum { LONGEST = 3 * PATH_MAX }; // two paths and more

/* Copies shown[0..n). If it does not fit, its middle is left out, as of a long path: the reason and
 * the way on are at the end. */
static void shorten(char *to, size_t size, const char *shown, size_t n)
{
    static const char gap[] = " ... ";
    size_t            first = n, last = 0;

    if (n >= size) {
        first = size / 3 - utf8_unfinished(shown, size / 3);
        last = size - first - sizeof gap;
        while (((unsigned char)shown[n - last] & 0xC0) == 0x80) // the rest of a character
            last--;
    }
    snprintf(to, size, "%.*s%s%s", (int)first, shown, last ? gap : "", shown + n - last);
}

static void err_write(struct err *err, enum err_kind kind, const char *fmt, va_list ap)
{
    char text[LONGEST], shown[LONGEST]; // the sentence may quote the one it replaces

    if (!err)
        return;
    int    whole = vsnprintf(text, sizeof text, fmt, ap) < (int)sizeof text;
    size_t n = strlen(text), was = strlen(err->text);
    int    goes_on = was && kind == ERR_FAILED && !strncmp(text, err->text, was);
    err->misuse = kind == ERR_MISUSED;
    err->stopped = kind == ERR_STOPPED || (goes_on && err->stopped);
    err->in_time = kind == ERR_IN_TIME;
    n = visible_text(shown, sizeof shown, text, whole ? n : n - utf8_unfinished(text, n));
    shorten(err->text, sizeof err->text, shown, n);
}

int err_say(struct err *err, enum err_kind kind, int rc, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    err_write(err, kind, fmt, ap);
    va_end(ap);
    return rc;
}

int err_name(struct err *err, int why, const char *fmt, ...)
{
    int     wrong = why == ENOENT || why == ENOTDIR || why == ELOOP || why == ENAMETOOLONG ||
                    why == EEXIST;
    va_list ap;

    va_start(ap, fmt);
    err_write(err, wrong ? ERR_MISUSED : ERR_FAILED, fmt, ap);
    va_end(ap);
    return wrong ? -EINVAL : -why;
}
