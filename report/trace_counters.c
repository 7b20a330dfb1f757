/* trace_counters.c: writes how many bytes moved when, and how each step ended. A request moves its
 * bytes evenly from its start to its end. A phase's traffic over a link is divided among its
 * requests by their bytes, or by their time if they have none, like the parts of an update. What is
 * moved next to steps, for snapshots and in the background, is spread over the step. So the
 * area under a counter's line, over a step, is the number in the table of traffic. */
#include "report/trace.h"

static double number(const char *text) { return text ? strtod(text, NULL) : (double)NAN; }

static void counter(struct trace_out *o, int pid, json_t *name, uint64_t at, double value)
{
    if (isfinite(value)) // JSON has no others
        trace_event(o, "{s:s, s:o, s:i, s:I, s:{s:f}}", "ph", "C", "name", name, "pid", pid, "ts",
                    (json_int_t)at, "args", "value", value);
    else
        json_decref(name);
}

/* The columns are device (-1: the host's link, which is shared), link, direction, time, bytes a
 * microsecond, which are MB/s. */
static int rate_row(void *ctx, int n, const char **values, const char **names)
{
    int device = atoi(values[0]);

    (void)n, (void)names;
    counter(ctx, device < 0 ? TRACE_HOST_PID : TRACE_DEVICE_PID + device,
            json_sprintf("%s link, %s, MB/s", values[1], values[2]), runlog_count(values[3]),
            number(values[4]));
    return 0;
}

/* The columns are step, its end, loss, tokens a second, peak memory. */
static int step_row(void *ctx, int n, const char **values, const char **names)
{
    uint64_t end = runlog_count(values[1]);
    double   loss = number(values[2]);

    (void)n, (void)names;
    counter(ctx, TRACE_HOST_PID, json_string("loss"), end, loss);
    if (!isfinite(loss)) // the counter stays as it was
        trace_event(ctx, "{s:s, s:s, s:o, s:i, s:i, s:I}", "ph", "i", "s", "p", "name",
                    json_sprintf("step %.0f: loss nan", number(values[0]) + 1), "pid",
                    TRACE_HOST_PID, "tid", 0, "ts", (json_int_t)end);
    counter(ctx, TRACE_HOST_PID, json_string("tokens a second"), end, number(values[3]));
    counter(ctx, TRACE_HOST_PID, json_string("peak resident memory, MB"), end,
            number(values[4]) / 1e6);
    return 0;
}

int trace_counters(struct trace_out *o, const struct trace *t, struct runlog *log,
                   struct err *err)
{
    unsigned long long a = t->steps.first, b = t->steps.last;
    // an update's reads and writes are timed as its parts; a request takes a microsecond at least
    int rc = runlog_ask(log, rate_row, o, err, "WITH"
        " moved AS (SELECT step, link, " TRACE_PLACE("device") " AS device, direction,"
        " iif(phase = 'update', 'update_' || direction, phase) AS phase, sum(bytes) AS bytes"
        " FROM whole_steps CROSS JOIN traffic USING (step)"
        " WHERE step BETWEEN %llu AND %llu AND device >= 0 AND link IN ('host', 'internal')"
        " AND direction IN ('read', 'write') GROUP BY step, phase, link, device, direction),"
        " requests AS (SELECT link, iif(link = 'host', -1, device) AS at, direction, start,"
        " max(done, start + 1) AS done, m.bytes AS bytes,"
        " coalesce(1.0 * s.bytes / nullif(sum(s.bytes) OVER o, 0),"
        " 1.0 * max(done - start, 1) / sum(max(done - start, 1)) OVER o) AS part"
        " FROM moved AS m JOIN shown AS s USING (step, device, phase)"
        " WINDOW o AS (PARTITION BY step, phase, link, device, direction) UNION ALL"
        " SELECT link, -1, direction, min(start), max(done, start + 1), b, 1.0 FROM"
        " (SELECT step, link, direction, sum(bytes) AS b FROM traffic"
        " WHERE step BETWEEN %llu AND %llu AND phase IN ('snapshot', 'scrub')"
        " AND link IN ('host', 'files') AND direction IN ('read', 'write')"
        " GROUP BY step, link, direction) JOIN shown USING (step) WHERE phase = 'step'"
        " GROUP BY step, link, direction),"
        " changes AS (SELECT at, link, direction, start AS time, part * bytes / (done - start) AS"
        " rate, 1 AS begun FROM requests WHERE part * bytes > 0 UNION ALL"
        " SELECT at, link, direction, done, -part * bytes / (done - start), -1 FROM requests"
        " WHERE part * bytes > 0)"
        // where no request is under way, what rounding left of the sum is removed
        " SELECT DISTINCT at, link, direction, time,"
        " iif(sum(begun) OVER o, max(sum(rate) OVER o, 0), 0) FROM changes"
        " WINDOW o AS (PARTITION BY at, link, direction ORDER BY time RANGE UNBOUNDED PRECEDING)"
        " ORDER BY at, link, direction, time", a, b, a, b);

    // a step ends with its thread's last span; these go on after it
    return rc ? rc : runlog_ask(log, step_row, o, err,
        "SELECT step, max(done), loss, tokens / nullif(seconds, 0), peak_rss"
        " FROM steps JOIN shown USING (step) WHERE device < 0"
        " AND phase NOT IN ('commit', 'eval', 'snapshot', 'wait_eval', 'wait_drain')"
        " GROUP BY step HAVING max(done) > 0 ORDER BY step");
}
