/* trace_spans.c: finds in run.db the steps that a trace shows, and reads their spans. */
#include "report/trace.h"

#include "data/base/grow.h"

#include <limits.h>

enum { STEPS_SHOWN = 10, STEPS_LOOKED = 99 };

/* ---- which steps ---- */

static int range_parse(struct trace_steps *r, const char *which, struct err *err)
{
    char    *end = NULL;
    uint64_t a = *which >= '0' && *which <= '9' ? strtoull(which, &end, 10) : 0, b = a;

    if (a && *end == '-' && end[1] >= '0' && end[1] <= '9')
        b = strtoull(end + 1, &end, 10);
    if (!a || *end || b < a || b > INT64_MAX)
        return err_misuse(err, "--trace-steps %s: expected a step or two, as 3 or 3-12, the first "
                          "step being 1", which);
    *r = (struct trace_steps){ a - 1, b - 1 };
    return 0;
}

static int range_row(void *ctx, int n, const char **values, const char **names)
{
    (void)n, (void)names;
    *(struct trace_steps *)ctx = (struct trace_steps){ values[0] ? runlog_count(values[0]) : 1,
                                           runlog_count(values[1]) };
    return 0;
}

/* Finds the first and the last step with whole spans: of the given ones, or of the newest. */
static int range_find(struct trace_steps *r, struct runlog *log, const char *which, struct err *err)
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

struct reading { struct trace *t; size_t room; struct err *err; };

/* The columns are step, phase, block, device, start, done, until, bytes, busy. */
static int span_row(void *ctx, int n, const char **values, const char **names)
{
    struct reading *r = ctx;
    int             rc = grow(&r->t->span, &r->room, r->t->spans + 1, sizeof *r->t->span, "spans",
                              r->err);

    (void)n, (void)names;
    if (rc)
        return rc;
    struct trace_span *s = &r->t->span[r->t->spans++];

    *s = (struct trace_span){ .step = runlog_count(values[0]), .block = atoi(values[2]),
                              .device = atoi(values[3]), .start = runlog_count(values[4]),
                              .end = runlog_count(values[5]), .until = runlog_count(values[6]),
                              .bytes = runlog_count(values[7]),
                              .busy = values[8] ? runlog_count(values[8]) : SIZE_MAX };
    snprintf(s->phase, sizeof s->phase, "%s", values[1] ? values[1] : "");
    return 0;
}

int trace_read(struct trace *t, struct runlog *log, const char *which, struct err *err)
{
    struct reading r = { .t = t, .err = err };
    char           mode[64] = "";

    *t = (struct trace){ 0 };
    int rc = range_find(&t->steps, log, which, err);
    t->on_host = !runlog_get(log, "option.mode", mode, sizeof mode, NULL) && !strcmp(mode, "mem");
    rc = rc ? rc : runlog_keep(log, "shown", "step, device, phase", err, TRACE_SHOWN,
                               (unsigned long long)t->steps.first,
                               (unsigned long long)t->steps.last);
    // in the same microsecond, empty spans come first: they ended before the others began
    return rc ? rc : runlog_ask(log, span_row, &r, err,
                                "SELECT step, phase, block, device, start, done, until, bytes, busy"
                                " FROM shown ORDER BY start, done > start, done DESC");
}
