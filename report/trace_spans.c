/* trace_spans.c: which steps, their spans on one clock, what they moved, how they ended.
 *
 * Spans have the time since the machine's start. A run that was resumed after another one is put
 * together by the processes' rows, which have one instant on both clocks; a run of before these
 * rows is joined where its clock went back. */
#include "report/trace.h"

#include "data/base/grow.h"

#include <limits.h>

enum { STEPS_SHOWN = 10, STEPS_LOOKED = 99, MOST_PLACES = 10001 };

struct reading {
    struct trace *t;
    size_t        span_room, row_room, step_room;
    uint64_t      step, first, end, base; // a clock that went back: see place()
    struct err   *err;
};

/* A device's or a block's number, in the bounds that a run has: -1 is none. */
static int place_number(const char *text)
{
    long v = text ? strtol(text, NULL, 10) : -1;

    return v < -1 ? -1 : v > MOST_PLACES ? MOST_PLACES : (int)v;
}

static void word(char *out, const char *text)
{
    snprintf(out, TRACE_PHASE, "%s", text ? text : "");
}

static int number_row(void *ctx, int n, const char **values, const char **names)
{
    (void)n, (void)names;
    *(uint64_t *)ctx = runlog_count(values[0]);
    return 0;
}

/* ---- which steps ---- */

struct range { uint64_t first, last; };

static int range_parse(struct range *r, const char *which, struct err *err)
{
    char    *end = NULL;
    uint64_t a = *which >= '0' && *which <= '9' ? strtoull(which, &end, 10) : 0, b = a;

    if (a && *end == '-' && end[1] >= '0' && end[1] <= '9')
        b = strtoull(end + 1, &end, 10);
    if (!a || *end || b < a || b > INT64_MAX)
        return err_misuse(err, "--trace-steps %s: expected a step or two, as 3 or 3-12, the first "
                          "step being 1", which);
    *r = (struct range){ a - 1, b - 1 };
    return 0;
}

static int range_row(void *ctx, int n, const char **values, const char **names)
{
    (void)n, (void)names;
    *(struct range *)ctx = (struct range){ values[0] ? runlog_count(values[0]) : 1,
                                           runlog_count(values[1]) };
    return 0;
}

/* From the first to the last one that has whole spans. */
static int range_find(struct range *r, struct runlog *log, const char *which, struct err *err)
{
    uint64_t newest = 0;
    int      rc = which ? range_parse(r, which, err)
                        : runlog_ask(log, number_row, &newest, err, "SELECT max(step) FROM steps");

    if (!rc && !which)
        *r = (struct range){ newest > STEPS_LOOKED ? newest - STEPS_LOOKED : 0, newest };
    rc = rc ? rc : runlog_ask(log, range_row, r, err,
                              "SELECT min(step), max(step) FROM (SELECT step FROM whole_steps"
                              " WHERE step BETWEEN %llu AND %llu ORDER BY step DESC LIMIT %d)",
                              (unsigned long long)r->first, (unsigned long long)r->last,
                              which ? INT_MAX : STEPS_SHOWN);
    if (!rc && r->first <= r->last && !which)
        r->last++; // what followed the last step: an evaluation, the wait for the end of all
    if (rc || r->first <= r->last)
        return rc;
    return err_misuse(err, "%s has no whole spans of %s%s: the first and last 100 and every 1,000th"
                      " step are kept so", runlog_path(log), which ? "step " : "its last steps",
                      which ? which : "");
}

/* ---- rows ---- */

/* Nanoseconds of one clock. offset: what its process's clock lacks, or NULL: then the clock may
 * have begun anew before a step, which then follows what was before. */
static uint64_t place(struct reading *r, uint64_t step, uint64_t start, const char *offset)
{
    if (offset)
        return start + (uint64_t)strtoll(offset, NULL, 10);
    if (step != r->step || !r->t->spans) {
        if (start + r->base < r->first)
            r->base = r->end - start;
        r->first = start + r->base;
        r->step = step;
    }
    return start + r->base;
}

/* step, phase, block, device, start_ns, end_ns, bytes, busy_ns, offset */
static int span_row(void *ctx, int n, const char **values, const char **names)
{
    struct reading *r = ctx;
    uint64_t        step = runlog_count(values[0]), start = runlog_count(values[4]);
    uint64_t        end = runlog_count(values[5]);
    int             rc = grow(&r->t->span, &r->span_room, r->t->spans + 1, sizeof *r->t->span,
                              "spans", r->err);

    (void)n, (void)names;
    if (rc)
        return rc;
    uint64_t           from = place(r, step, start, values[8]);
    struct trace_span *s = &r->t->span[r->t->spans++];

    *s = (struct trace_span){ .step = step, .block = place_number(values[2]),
                              .device = place_number(values[3]), .start = from,
                              .end = from + (end > start ? end - start : 0),
                              .bytes = runlog_count(values[6]),
                              .busy = values[7] ? runlog_count(values[7]) / 1000 : SIZE_MAX };
    word(s->phase, values[1]);
    r->end = s->end > r->end ? s->end : r->end;
    return 0;
}

/* step, phase, link, device, direction, bytes; links and directions are those that there are, and
 * may name a counter. */
static int traffic_row(void *ctx, int n, const char **values, const char **names)
{
    struct reading *r = ctx;
    int             rc = grow(&r->t->traffic, &r->row_room, r->t->rows + 1, sizeof *r->t->traffic,
                              "rows of traffic", r->err);

    (void)n, (void)names;
    if (rc)
        return rc;
    struct trace_traffic *w = &r->t->traffic[r->t->rows++];
    *w = (struct trace_traffic){ .step = runlog_count(values[0]), .bytes = runlog_count(values[5]),
                                 .device = place_number(values[3]) };
    word(w->phase, values[1]);
    word(w->link, values[2]);
    word(w->direction, values[4]);
    return 0;
}

/* step, loss, tokens a second, peak_rss */
static int step_row(void *ctx, int n, const char **values, const char **names)
{
    struct reading *r = ctx;
    int             rc = grow(&r->t->step, &r->step_room, r->t->steps + 1, sizeof *r->t->step,
                              "steps", r->err);

    (void)n, (void)names;
    if (!rc)
        r->t->step[r->t->steps++] =
            (struct trace_step){ runlog_count(values[0]), 0, runlog_real(values[1]),
                                 runlog_real(values[2]), runlog_real(values[3]) };
    return rc;
}

/* ---- putting it together ---- */

/* Of those that begin in the same microsecond, first what takes none: it was over before the others
 * began. Then the longest, since the others lie in it. */
static int by_time(const void *a, const void *b)
{
    const struct trace_span *x = a, *y = b;
    int                      x_none = x->end == x->start, y_none = y->end == y->start;

    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x_none != y_none)
        return y_none - x_none;
    return (x->end < y->end) - (x->end > y->end);
}

/* What may go on when the step that it is told under is over. */
static int outlasts_step(const char *phase)
{
    return !strcmp(phase, "commit") || !strcmp(phase, "eval") || !strcmp(phase, "wait_eval") ||
           !strcmp(phase, "wait_drain");
}

/* Microseconds from the first span on, in order; a step ends as the last span of its thread. */
static void align(struct trace *t)
{
    uint64_t first = UINT64_MAX;

    for (size_t i = 0; i < t->spans; i++)
        first = t->span[i].start < first ? t->span[i].start : first;
    for (size_t i = 0; i < t->spans; i++) {
        struct trace_span *s = &t->span[i];

        s->until = s->end - first;
        s->start = (s->start - first) / 1000;
        s->end = s->until / 1000;
        for (size_t k = 0; k < t->steps && s->device < 0 && !outlasts_step(s->phase); k++)
            if (t->step[k].step == s->step && s->end > t->step[k].end)
                t->step[k].end = s->end;
    }
    qsort(t->span, t->spans, sizeof *t->span, by_time);
}

int trace_read(struct trace *t, struct runlog *log, const char *which, struct err *err)
{
    struct reading r = { .t = t, .err = err };
    struct range   steps;
    char           mode[64] = "";

    *t = (struct trace){ 0 };
    int rc = range_find(&steps, log, which, err);
    if (rc)
        return rc;
    t->on_host = !runlog_get(log, "option.mode", mode, sizeof mode, NULL) && !strcmp(mode, "mem");
    unsigned long long a = steps.first, b = steps.last;
    rc = runlog_ask(log, span_row, &r, err,
                    "SELECT step, phase, block, device, start_ns, end_ns, bytes, busy_ns,"
                    " (SELECT unix_ns - clock_ns FROM processes p WHERE p.process = s.process)"
                    " FROM whole_spans s"
                    " WHERE step BETWEEN %llu AND %llu ORDER BY step, device >= 0, start_ns", a, b);
    rc = rc ? rc : runlog_ask(log, traffic_row, &r, err,
                              "SELECT step, phase, link, device, direction, sum(bytes)"
                              " FROM whole_steps CROSS JOIN traffic USING (step)"
                              " WHERE step BETWEEN %llu AND %llu AND device >= 0"
                              " AND link IN ('host', 'internal')"
                              " AND direction IN ('read', 'write')"
                              " GROUP BY step, phase, link, device, direction", a, b);
    rc = rc ? rc : runlog_ask(log, step_row, &r, err,
                              "SELECT step, loss, tokens / nullif(seconds, 0), peak_rss"
                              " FROM whole_steps CROSS JOIN steps USING (step)"
                              " WHERE step BETWEEN %llu AND %llu ORDER BY step", a, b);
    if (!rc)
        align(t);
    return rc;
}

void trace_release(struct trace *t)
{
    free(t->span);
    free(t->traffic);
    free(t->step);
    *t = (struct trace){ 0 };
}
