/* err.c: writes the sentence of a failure. It may quote what a file holds: control characters,
 * which would break the line or speak to the terminal, become question marks. */
#include "data/base/err.h"

#include <stdarg.h>

static void err_write(struct err *err, int misuse, int stopped, const char *fmt, va_list ap)
{
    char text[sizeof err->text]; // the sentence may quote the one it replaces

    if (!err)
        return;
    vsnprintf(text, sizeof text, fmt, ap);
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7F)
            *p = '?';
    err->misuse = misuse;
    err->stopped = stopped;
    snprintf(err->text, sizeof err->text, "%s", text);
}

int err_set(struct err *err, int rc, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    err_write(err, 0, 0, fmt, ap);
    va_end(ap);
    return rc;
}

int err_misuse(struct err *err, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    err_write(err, 1, 0, fmt, ap);
    va_end(ap);
    return -EINVAL;
}

int err_name(struct err *err, int why, const char *fmt, ...)
{
    int     wrong = why == ENOENT || why == ENOTDIR || why == ELOOP || why == ENAMETOOLONG ||
                    why == EEXIST;
    va_list ap;

    va_start(ap, fmt);
    err_write(err, wrong, 0, fmt, ap);
    va_end(ap);
    return wrong ? -EINVAL : -why;
}

int err_stopped(struct err *err, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    err_write(err, 0, 1, fmt, ap);
    va_end(ap);
    return -EINTR;
}
