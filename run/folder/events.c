/* events.c: calls the callbacks that are set. */
#include "run/folder/events.h"

#include <stdarg.h>

enum { TEXT = sizeof ((struct err *)0)->text };

static const struct events *heard_by(const struct events *e)
{
    static const struct events nobody;

    return e ? e : &nobody;
}

static void tell(void (*hear)(void *ctx, const char *text), void *ctx, const char *fmt, va_list ap)
{
    char text[TEXT];

    vsnprintf(text, sizeof text, fmt, ap);
    if (hear)
        hear(ctx, text);
}

void events_notice(const struct events *e, const char *fmt, ...)
{
    va_list ap;

    e = heard_by(e);
    va_start(ap, fmt);
    tell(e->notice, e->ctx, fmt, ap);
    va_end(ap);
}

void events_kill_costs(const struct events *e, const char *fmt, ...)
{
    va_list ap;

    e = heard_by(e);
    va_start(ap, fmt);
    if (fmt)
        tell(e->kill_costs, e->ctx, fmt, ap);
    else if (e->kill_costs)
        e->kill_costs(e->ctx, NULL);
    va_end(ap);
}

void events_stop_waits(const struct events *e, double seconds, uint64_t step, const char *until)
{
    char text[TEXT];

    snprintf(text, sizeof text, "when step %llu is %s", (unsigned long long)step, until);
    if (heard_by(e)->stop_waits)
        e->stop_waits(e->ctx, text, seconds);
}

int events_asked_to_stop(const struct events *e)
{
    return heard_by(e)->asked_to_stop && e->asked_to_stop(e->ctx);
}

static int look(void *ctx, uint64_t done, uint64_t total)
{
    const struct events *e = ctx;

    if (events_asked_to_stop(e))
        return 1;
    if (heard_by(e)->work_goes_on)
        e->work_goes_on(e->ctx, done, total);
    return 0;
}

struct watch work_begin(const struct events *e, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    tell(heard_by(e)->work_begins, heard_by(e)->ctx, fmt, ap);
    va_end(ap);
    return (struct watch){ look, (void *)(uintptr_t)e };
}

void work_end(const struct events *e)
{
    if (heard_by(e)->work_ends)
        e->work_ends(e->ctx);
}
