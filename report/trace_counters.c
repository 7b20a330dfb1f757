/* trace_counters.c: how much moved when. A request moves its bytes evenly from its start to its
 * end; a phase's traffic over a link goes to its requests by their bytes, or by their time where
 * they say none, as an update's parts. So what is under a counter's line, over a step, is what the
 * table traffic says of it. */
#include "report/trace.h"

#include "data/base/grow.h"
#include "data/base/nan.h"

#include <math.h>

/* A counter's change at a time. active: requests that begin, or end. */
struct change { uint64_t at; size_t counter; double rate; int active; };
struct counter { int pid; char name[64]; double value; int active; };

struct counters {
    const struct trace_span **by_step;
    struct counter *counter;
    struct change  *change;
    size_t          counters, changes, counter_room, change_room;
};

/* The row's requests: an update's reads and writes are timed as its parts. */
static void phase_of(char *out, size_t size, const struct trace_traffic *w)
{
    if (strcmp(w->phase, "update"))
        snprintf(out, size, "%s", w->phase);
    else
        snprintf(out, size, "update_%s", w->direction);
}

static int by_step(const void *a, const void *b)
{
    const struct trace_span *x = *(void *const *)a, *y = *(void *const *)b;

    return (x->step > y->step) - (x->step < y->step);
}

/* The first span of the step, of those that are in the order of steps. */
static size_t first_of(const struct counters *all, size_t n, uint64_t step)
{
    size_t low = 0, high = n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (all->by_step[middle]->step < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int is_of(const struct trace_span *s, const struct trace_traffic *w, const char *phase)
{
    return s->device == w->device && !strcmp(s->phase, phase);
}

/* The host's link is shared; the internal one is the device's. */
static int counter_find(struct counters *all, const struct trace_traffic *w, size_t *at,
                        struct err *err)
{
    int  pid = strcmp(w->link, "host") ? TRACE_DEVICE_PID + w->device : TRACE_HOST_PID;
    char name[64];

    snprintf(name, sizeof name, "%s link, %s, MB/s", w->link, w->direction);
    for (*at = 0; *at < all->counters; ++*at)
        if (all->counter[*at].pid == pid && !strcmp(all->counter[*at].name, name))
            return 0;
    int rc = grow(&all->counter, &all->counter_room, all->counters + 1, sizeof *all->counter,
                  "counters", err);
    if (!rc) {
        all->counter[all->counters] = (struct counter){ .pid = pid };
        memcpy(all->counter[all->counters++].name, name, sizeof name);
    }
    return rc;
}

/* Microseconds; no request is without any here. */
static uint64_t length_of(const struct trace_span *s)
{
    return s->end > s->start ? s->end - s->start : 1;
}

static int add_request(struct counters *all, size_t counter, const struct trace_span *s,
                       double bytes, struct err *err)
{
    double rate = bytes / (double)length_of(s); // a microsecond: MB/s
    int    rc = grow(&all->change, &all->change_room, all->changes + 2, sizeof *all->change,
                     "counters' values", err);

    if (rc)
        return rc;
    all->change[all->changes++] = (struct change){ s->start, counter, rate, 1 };
    all->change[all->changes++] = (struct change){ s->start + length_of(s), counter, -rate, -1 };
    return 0;
}

static int add_traffic(struct counters *all, const struct trace *t, const struct trace_traffic *w,
                       struct err *err)
{
    char     phase[2 * TRACE_PHASE];
    size_t   at, first = first_of(all, t->spans, w->step), end = first;
    uint64_t bytes = 0, time = 0;
    int      rc = counter_find(all, w, &at, err);

    phase_of(phase, sizeof phase, w);
    for (; end < t->spans && all->by_step[end]->step == w->step; end++)
        if (is_of(all->by_step[end], w, phase)) {
            bytes += all->by_step[end]->bytes;
            time += length_of(all->by_step[end]);
        }
    for (size_t i = first; i < end && !rc; i++) {
        const struct trace_span *s = all->by_step[i];
        double part = bytes ? (double)s->bytes / (double)bytes
                            : (double)length_of(s) / (double)time;

        if (is_of(s, w, phase) && part > 0 && w->bytes)
            rc = add_request(all, at, s, part * (double)w->bytes, err);
    }
    return rc;
}

static int by_counter(const void *a, const void *b)
{
    const struct change *x = a, *y = b;

    if (x->counter != y->counter)
        return x->counter < y->counter ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static void write_counter(struct trace_out *o, int pid, const char *name, uint64_t at, double value)
{
    char text[TRACE_TEXT];

    if (isfinite(value)) // JSON has no others
        trace_event(o, "{\"ph\":\"C\",\"name\":%s,\"pid\":%d,\"ts\":%llu,"
                    "\"args\":{\"value\":%.9g}}", trace_quoted(text, name), pid,
                    (unsigned long long)at, value);
}

static void write_changes(struct trace_out *o, struct counters *all)
{
    qsort(all->change, all->changes, sizeof *all->change, by_counter);
    for (size_t i = 0; i < all->changes; i++) {
        const struct change *c = &all->change[i], *next = c + 1;
        struct counter      *k = &all->counter[c->counter];

        k->active += c->active;
        k->value = k->active ? k->value + c->rate : 0; // without what sums of many leave behind
        if (i + 1 == all->changes || next->counter != c->counter || next->at != c->at)
            write_counter(o, k->pid, k->name, c->at, k->value);
    }
}

int trace_counters(struct trace_out *o, const struct trace *t, struct err *err)
{
    struct counters all = { .by_step = calloc(t->spans + 1, sizeof *all.by_step) };
    int             rc = all.by_step ? 0 : err_set(err, -ENOMEM, "no memory for counters");

    for (size_t i = 0; i < t->spans && !rc; i++)
        all.by_step[i] = &t->span[i];
    if (!rc)
        qsort(all.by_step, t->spans, sizeof *all.by_step, by_step);
    for (size_t i = 0; i < t->rows && !rc; i++)
        rc = add_traffic(&all, t, &t->traffic[i], err);
    if (!rc && all.changes)
        write_changes(o, &all);
    for (size_t i = 0; i < t->steps && !rc; i++) {
        const struct trace_step *s = &t->step[i];

        if (!s->end)
            continue; // its spans are not whole
        write_counter(o, TRACE_HOST_PID, "loss", s->end, s->loss);
        if (!isfinite(s->loss)) // the counter stays where it was
            trace_event(o, "{\"ph\":\"i\",\"s\":\"p\",\"name\":\"step %llu: loss %f\",\"pid\":%d,"
                        "\"tid\":0,\"ts\":%llu}", (unsigned long long)s->step + 1,
                        nan_plain(s->loss), TRACE_HOST_PID, (unsigned long long)s->end);
        write_counter(o, TRACE_HOST_PID, "tokens a second", s->end, s->rate);
        write_counter(o, TRACE_HOST_PID, "peak resident memory, MB", s->end, s->rss / 1e6);
    }
    free(all.by_step);
    free(all.counter);
    free(all.change);
    return rc;
}
