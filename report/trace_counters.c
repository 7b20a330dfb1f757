/* trace_counters.c: writes how many bytes moved when, and how each step ended. A request moves its
 * bytes evenly from its start to its end. A phase's traffic over a link is divided among its
 * requests by their bytes, or by their time if they have none, like the parts of an update. So the
 * area under a counter's line, over a step, is the number in the table of traffic. */
#include "report/trace.h"

#include "data/base/grow.h"

/* A change of a counter. active: +1 for a request that begins, -1 for one that ends. */
struct change { uint64_t at; const json_t *of; double rate; int active; };

struct changes { struct change *item; size_t n, room; };

/* The host's link is shared; an internal link is its device's. */
static int pid_of(const json_t *of)
{
    return strcmp(json_str(of, "link"), "host")
               ? TRACE_DEVICE_PID + trace_place(json_num(of, "device"))
               : TRACE_HOST_PID;
}

static int compare_counters(const json_t *a, const json_t *b)
{
    int link = strcmp(json_str(a, "link"), json_str(b, "link"));

    return pid_of(a) != pid_of(b) ? pid_of(a) - pid_of(b)
           : link ? link : strcmp(json_str(a, "direction"), json_str(b, "direction"));
}

static int by_counter(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    int                  order = compare_counters(x->of, y->of);

    return order ? order : (x->at > y->at) - (x->at < y->at);
}

static int by_step(const void *a, const void *b)
{
    const struct trace_span *x = *(void *const *)a, *y = *(void *const *)b;

    return (x->step > y->step) - (x->step < y->step);
}

/* Length in microseconds, at least 1. */
static uint64_t length_of(const struct trace_span *s)
{
    return s->end > s->start ? s->end - s->start : 1;
}

static int is_of(const struct trace_span *s, const json_t *of)
{
    return s->device == trace_place(json_num(of, "device")) && !strcmp(s->phase,
                                                                       json_str(of, "phase"));
}

/* Adds the traffic `of` as changes, divided among its requests in the n spans of its step. */
static int add_traffic(struct changes *all, const json_t *of, struct trace_span **span, size_t n,
                       struct err *err)
{
    uint64_t bytes = 0, time = 0;
    int      rc = 0;

    for (size_t i = 0; i < n; i++)
        if (is_of(span[i], of)) {
            bytes += span[i]->bytes;
            time += length_of(span[i]);
        }
    for (size_t i = 0; i < n && !rc; i++) {
        const struct trace_span *s = span[i];
        double length = (double)length_of(s);
        double part = bytes ? (double)s->bytes / (double)bytes : length / (double)time;
        double rate = part * json_num(of, "bytes") / length; // per microsecond: MB/s

        if (!is_of(s, of) || !(rate > 0))
            continue;
        rc = grow(&all->item, &all->room, all->n + 2, sizeof *all->item, "counters", err);
        if (rc)
            return rc;
        all->item[all->n++] = (struct change){ s->start, of, rate, 1 };
        all->item[all->n++] = (struct change){ s->start + length_of(s), of, -rate, -1 };
    }
    return rc;
}

static void write_counter(struct trace_out *o, int pid, json_t *name, uint64_t at, double value)
{
    if (isfinite(value)) // JSON has no others
        trace_event(o, "{s:s, s:o, s:i, s:I, s:{s:f}}", "ph", "C", "name", name, "pid", pid, "ts",
                    (json_int_t)at, "args", "value", value);
    else
        json_decref(name);
}

static void write_changes(struct trace_out *o, struct changes *all)
{
    double value = 0;
    int    active = 0;

    if (all->n)
        qsort(all->item, all->n, sizeof *all->item, by_counter);
    for (size_t i = 0; i < all->n; i++) {
        const struct change *c = &all->item[i], *next = c + 1;
        int last = i + 1 == all->n || compare_counters(c->of, next->of) != 0;

        active += c->active;
        value = active ? value + c->rate : 0; // removes rounding errors of long sums
        if (last || next->at != c->at)
            write_counter(o, pid_of(c->of), json_sprintf("%s link, %s, MB/s",
                                                         json_str(c->of, "link"),
                                                         json_str(c->of, "direction")),
                          c->at, value);
        value = last ? 0 : value;
        active = last ? 0 : active;
    }
}

/* Whether a phase may go on after its step has ended. */
static int outlasts_step(const char *phase)
{
    return !strcmp(phase, "commit") || !strcmp(phase, "eval") || !strcmp(phase, "wait_eval") ||
           !strcmp(phase, "wait_drain");
}

/* Writes a step's end, which is that of its thread's last span. A step without spans has none. */
static void write_step(struct trace_out *o, const json_t *step, struct trace_span **span, size_t n)
{
    uint64_t end = 0;
    double   loss = json_figure(step, "loss");

    for (size_t i = 0; i < n; i++)
        if (span[i]->device < 0 && span[i]->end > end && !outlasts_step(span[i]->phase))
            end = span[i]->end;
    if (!end)
        return;
    write_counter(o, TRACE_HOST_PID, json_string("loss"), end, loss);
    if (!isfinite(loss)) // the counter stays as it was
        trace_event(o, "{s:s, s:s, s:o, s:i, s:i, s:I}", "ph", "i", "s", "p", "name",
                    json_sprintf("step %.0f: loss nan", json_num(step, "step") + 1), "pid",
                    TRACE_HOST_PID, "tid", 0, "ts", (json_int_t)end);
    write_counter(o, TRACE_HOST_PID, json_string("tokens a second"), end,
                  json_figure(step, "rate"));
    write_counter(o, TRACE_HOST_PID, json_string("peak resident memory, MB"), end,
                  json_figure(step, "peak_rss") / 1e6);
}

/* The spans of a step. Spans are in the order of steps; *first moves on. Returns their number. */
static size_t spans_of(struct trace_span **all, size_t n, size_t *first, const json_t *row)
{
    double step = json_num(row, "step");
    size_t end;

    while (*first < n && (double)all[*first]->step < step)
        ++*first;
    for (end = *first; end < n && (double)all[end]->step == step; end++)
        ;
    return end - *first;
}

int trace_counters(struct trace_out *o, const struct trace *t, struct err *err)
{
    struct trace_span **span = calloc(t->spans + 1, sizeof *span);
    struct changes      all = { 0 };
    const json_t       *row;
    size_t              i, first = 0;
    int                 rc = span ? 0 : err_set(err, -ENOMEM, "no memory for counters");

    for (i = 0; i < t->spans && !rc; i++)
        span[i] = &t->span[i];
    if (!rc)
        qsort(span, t->spans, sizeof *span, by_step);
    json_array_foreach(t->traffic, i, row)
        if (!rc) {
            size_t n = spans_of(span, t->spans, &first, row);

            rc = add_traffic(&all, row, span + first, n, err);
        }
    if (!rc)
        write_changes(o, &all);
    first = 0;
    json_array_foreach(t->steps, i, row)
        if (!rc) {
            size_t n = spans_of(span, t->spans, &first, row);

            write_step(o, row, span + first, n);
        }
    free(span);
    free(all.item);
    return rc;
}
