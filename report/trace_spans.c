/* trace_spans.c: reads from run.db the steps that a trace shows, their spans on one clock, their
 * traffic and their ends.
 *
 * Spans have the time since the machine's start. If a run was resumed, the rows of its processes,
 * which have one instant on both clocks, join the parts. Runs older than these rows are joined
 * where their clock went back. */
#include "report/trace.h"

#include "data/base/grow.h"
#include "report/report.h"

#include <limits.h>

enum { STEPS_SHOWN = 10, STEPS_LOOKED = 99, MOST_PLACES = 10001 };

int trace_place(double v) { return v >= -1 ? (int)fmin(v, MOST_PLACES) : -1; }

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

/* Finds the first and the last step with whole spans: of the given ones, or of the newest. */
static int range_find(struct range *r, struct runlog *log, const char *which, struct err *err)
{
    int rc = which ? range_parse(r, which, err)
                   : runlog_ask(log, range_row, r, err,
                                "SELECT max(0, max(step) - %d), max(step) FROM steps",
                                STEPS_LOOKED);

    rc = rc ? rc : runlog_ask(log, range_row, r, err,
                              "SELECT min(step), max(step) FROM (SELECT step FROM whole_steps"
                              " WHERE step BETWEEN %llu AND %llu ORDER BY step DESC LIMIT %d)",
                              (unsigned long long)r->first, (unsigned long long)r->last,
                              which ? INT_MAX : STEPS_SHOWN);
    if (!rc && r->first <= r->last && !which)
        r->last++; // what follows the last step: an evaluation, the wait at the end
    if (rc || r->first <= r->last)
        return rc;
    return err_misuse(err, "%s has no whole spans of %s%s: the first and last 100 and every 1,000th"
                      " step are kept so", runlog_path(log), which ? "step " : "its last steps",
                      which ? which : "");
}

/* ---- spans ---- */

struct reading {
    struct trace *t;
    size_t        room;
    uint64_t      step, first, end, base; // for a clock that went back: see place()
    struct err   *err;
};

/* Converts a time to the common clock. offset: what the process's clock lacks. If NULL, the clock
 * may have begun anew before a step, which then follows the spans before. */
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

/* The columns are step, phase, block, device, start_ns, end_ns, bytes, busy_ns, offset. */
static int span_row(void *ctx, int n, const char **values, const char **names)
{
    struct reading *r = ctx;
    uint64_t        step = runlog_count(values[0]), start = runlog_count(values[4]);
    uint64_t        end = runlog_count(values[5]);
    int             rc = grow(&r->t->span, &r->room, r->t->spans + 1, sizeof *r->t->span, "spans",
                              r->err);

    (void)n, (void)names;
    if (rc)
        return rc;
    uint64_t           from = place(r, step, start, values[8]);
    struct trace_span *s = &r->t->span[r->t->spans++];

    *s = (struct trace_span){ .step = step, .start = from,
                              .block = trace_place(values[2] ? strtod(values[2], NULL) : -1),
                              .device = trace_place(values[3] ? strtod(values[3], NULL) : -1),
                              .end = from + (end > start ? end - start : 0),
                              .bytes = runlog_count(values[6]),
                              .busy = values[7] ? runlog_count(values[7]) / 1000 : SIZE_MAX };
    snprintf(s->phase, sizeof s->phase, "%s", values[1] ? values[1] : "");
    r->end = s->end > r->end ? s->end : r->end;
    return 0;
}

/* Sorts by start. In the same microsecond, empty spans come first: they ended before the others
 * began. Then comes the longest, because the others are within it. */
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

/* Converts to microseconds from the first span on, and sorts. */
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
    // an update's reads and writes are timed as its parts
    rc = rc ? rc : report_rows(&t->traffic, log, err,
                               "SELECT step, link, device, direction, sum(bytes) AS bytes,"
                               " iif(phase = 'update', 'update_' || direction, phase) AS phase"
                               " FROM whole_steps CROSS JOIN traffic USING (step)"
                               " WHERE step BETWEEN %llu AND %llu AND device >= 0"
                               " AND link IN ('host', 'internal')"
                               " AND direction IN ('read', 'write')"
                               " GROUP BY step, phase, link, device, direction ORDER BY step",
                               a, b);
    rc = rc ? rc : report_rows(&t->steps, log, err,
                               "SELECT step, loss, peak_rss, tokens / nullif(seconds, 0) AS rate"
                               " FROM whole_steps CROSS JOIN steps USING (step)"
                               " WHERE step BETWEEN %llu AND %llu ORDER BY step", a, b);
    if (!rc)
        align(t);
    return rc;
}

void trace_release(struct trace *t)
{
    free(t->span);
    json_decref(t->traffic);
    json_decref(t->steps);
    *t = (struct trace){ 0 };
}
