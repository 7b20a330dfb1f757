/* events.c: calls what is there to be called. */
#include "cmd/run/events.h"

#include <stdarg.h>
#include <stdio.h>

enum { TEXT = 1024 };

void events_notice(const struct events *e, const char *fmt, ...)
{
    char    text[TEXT];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (e && e->notice)
        e->notice(e->ctx, text);
}

int events_asked_to_stop(const struct events *e)
{
    return e && e->asked_to_stop && e->asked_to_stop(e->ctx);
}

void events_stop_waits(const struct events *e, double seconds, const char *fmt, ...)
{
    char    text[TEXT];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (e && e->stop_waits)
        e->stop_waits(e->ctx, text, seconds);
}

void events_kill_costs(const struct events *e, const char *fmt, ...)
{
    char    text[TEXT];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt ? fmt : "", ap);
    va_end(ap);
    if (e && e->kill_costs)
        e->kill_costs(e->ctx, fmt ? text : NULL);
}

static int look(void *ctx, uint64_t done, uint64_t total)
{
    const struct events *e = ctx;

    if (events_asked_to_stop(e))
        return 1;
    if (e && e->work_goes_on)
        e->work_goes_on(e->ctx, done, total);
    return 0;
}

struct watch work_begin(const struct events *e, const char *fmt, ...)
{
    char    what[TEXT];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    if (e && e->work_begins)
        e->work_begins(e->ctx, what);
    return (struct watch){ look, (void *)(uintptr_t)e };
}

void work_end(const struct events *e)
{
    if (e && e->work_ends)
        e->work_ends(e->ctx);
}
