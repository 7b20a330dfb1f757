/* look.c: the questions. Each looks at the last steps only, or at some of all: a look costs
 * milliseconds also after 100,000 steps. Definitions are the views' of run.db, so that
 * `siTrain report` says the same of the same steps. */
#include "cmd/terminal/look.h"

#include "data/base/file.h"
#include "data/db/runlog.h"

#include <math.h>

enum { WHOLE_STEPS = 10, STEADY_STEPS = 60, CURVE_STEPS = 64 };

const char *const look_parts[4] = { "forward", "backward", "update", "other" };

/* ---- rows ---- */

static int run_row(void *ctx, int n, const char **values, const char **names)
{
    struct look *f = ctx;

    (void)n, (void)names;
    f->planned = runlog_count(values[0]);
    f->host_mem = values[1] ? runlog_real(values[1]) : 0;
    snprintf(f->mode, sizeof f->mode, "%s", values[2] ? values[2] : "");
    f->done = runlog_count(values[3]);
    f->rss = runlog_real(values[4]);
    f->skipped = values[5] ? runlog_real(values[5]) : 0;
    f->measured = runlog_count(values[6]);
    f->arenas = values[7] ? runlog_real(values[7]) : 0;
    return 0;
}

static int step_row(void *ctx, int n, const char **values, const char **names)
{
    struct look *f = ctx;

    (void)n, (void)names;
    f->loss = runlog_real(values[0]);
    f->lr = runlog_real(values[1]);
    f->norm = runlog_real(values[2]);
    f->clipped = runlog_real(values[3]);
    return 0;
}

static int median_row(void *ctx, int n, const char **values, const char **names)
{
    (void)n, (void)names;
    ((struct look *)ctx)->median = runlog_real(values[0]);
    ((struct look *)ctx)->step_tokens = runlog_real(values[1]);
    return 0;
}

static int curve_row(void *ctx, int n, const char **values, const char **names)
{
    struct look *f = ctx;
    uint64_t        at = runlog_count(values[0]);
    double          v = runlog_real(values[1]);

    (void)n, (void)names;
    if (at < f->points && isfinite(v))
        f->curve[at] = v;
    return 0;
}

static int eval_row(void *ctx, int n, const char **values, const char **names)
{
    struct look *f = ctx;

    (void)n, (void)names;
    if (f->evals == LOOK_EVALS)
        return 0;
    snprintf(f->eval[f->evals].name, sizeof f->eval->name, "%s", values[1] ? values[1] : "");
    f->eval[f->evals].step = runlog_count(values[0]);
    f->eval[f->evals++].value = runlog_real(values[2]);
    return 0;
}

static int notice_row(void *ctx, int n, const char **values, const char **names)
{
    struct look *f = ctx;

    (void)n, (void)names;
    snprintf(f->notice_time, sizeof f->notice_time, "%s", values[0] ? values[0] : "");
    snprintf(f->notice, sizeof f->notice, "%s", values[1] ? values[1] : "");
    return 0;
}

static int parts_row(void *ctx, int n, const char **values, const char **names)
{
    struct look *f = ctx;

    (void)n, (void)names;
    f->whole = runlog_count(values[0]);
    f->seconds = runlog_real(values[1]);
    for (int i = 0; i < 4; i++)
        f->part[i] = runlog_real(values[2 + i]);
    return 0;
}

static int rate_row(void *ctx, int n, const char **values, const char **names)
{
    struct look *f = ctx;
    uint64_t        device = runlog_count(values[0]);
    int             internal = values[1] && strcmp(values[1], "host");
    int             write = values[2] && !strcmp(values[2], "write");

    (void)n, (void)names;
    if (device >= LOOK_DEVICES)
        return 0;
    f->devices = device + 1 > f->devices ? device + 1 : f->devices;
    f->device[device].rate[internal][write] = runlog_real(values[3]);
    return 0;
}

/* ---- questions ---- */

static int read_run(struct look *f, struct runlog *log, struct err *err)
{
    return runlog_ask(log, run_row, f, err,
                      "SELECT (SELECT value FROM runs WHERE key = 'option.steps'),"
                      " (SELECT value FROM runs WHERE key = 'option.host-mem'),"
                      " (SELECT value FROM runs WHERE key = 'option.mode'),"
                      " (SELECT max(step) + 1 FROM steps),"
                      " (SELECT peak_rss FROM steps WHERE peak_rss > 0 ORDER BY step DESC LIMIT 1),"
                      " (SELECT sum(skipped) FROM"
                      " (SELECT skipped FROM steps ORDER BY step DESC LIMIT %d)),"
                      " (SELECT 2 * max(step) FROM spans)"
                      " + (SELECT seconds > 0 FROM steps ORDER BY step DESC LIMIT 1),"
                      " (SELECT CAST(value AS INTEGER) FROM runs WHERE key LIKE 'memory.__'"
                      " AND value LIKE '%% arenas of emulated devices')",
                      LOOK_SKIPPED);
}

static int read_steps(struct look *f, struct runlog *log, struct err *err)
{
    unsigned long long done = f->done;
    int rc = runlog_ask(log, step_row, f, err,
                        "SELECT loss, lr, grad_norm, clipped FROM steps WHERE step = %llu",
                        done - 1);

    // the rule of the view steady_steps, of the last steps alone
    rc = rc ? rc : runlog_ask(log, median_row, f, err,
                              "WITH s AS (SELECT s.seconds, s.tokens, row_number() OVER"
                              " (ORDER BY s.seconds) AS i, count(*) OVER () AS n"
                              " FROM steps s JOIN steps b ON b.step = s.step - 1"
                              " WHERE s.step + %d >= %llu AND s.seconds > 0 AND NOT s.skipped"
                              " AND NOT b.skipped"
                              " AND s.step NOT IN (SELECT first_step FROM processes)"
                              " AND b.step NOT IN (SELECT step FROM evals WHERE step + %d >= %llu))"
                              " SELECT avg(seconds), (SELECT avg(tokens) FROM s) FROM s"
                              " WHERE i IN ((n + 1) / 2, (n + 2) / 2)",
                              STEADY_STEPS, done, STEADY_STEPS + 1, done);
    if (f->points > done)
        f->points = done;
    for (size_t i = 0; i < LOOK_CURVE; i++)
        f->curve[i] = (double)NAN;
    return rc ? rc : runlog_ask(log, curve_row, f, err,
                                "WITH RECURSIVE part(i) AS (SELECT 0 UNION ALL SELECT i + 1"
                                " FROM part WHERE i + 1 < %zu)"
                                " SELECT i, (SELECT avg(loss) FROM (SELECT loss FROM steps"
                                " WHERE step >= i * %llu / %zu AND step < (i + 1) * %llu / %zu"
                                " ORDER BY step LIMIT %d)) FROM part",
                                f->points, done, f->points, done, f->points, CURVE_STEPS);
}

/* The whole spans of the last steps, from one on: the views breakdown and device_rate would go
 * through those of all steps. */
#define RECENT                                                                                     \
    "WITH recent AS (SELECT * FROM spans WHERE step >= %llu AND step NOT IN"                       \
    " (SELECT step FROM spans WHERE step >= %llu AND start_ns = 0)),"

/* The rule of the view breakdown. */
static const char recent_parts[] =
    RECENT
    " host AS (SELECT step, phase, (end_ns - start_ns) / 1e9 AS seconds, start_ns < loss_ns AS"
    " in_forward FROM recent JOIN (SELECT step, min(start_ns) AS loss_ns FROM recent"
    " WHERE phase = 'loss' GROUP BY step) USING (step) WHERE device = -1),"
    " parts AS (SELECT s.seconds, coalesce(sum(h.seconds) FILTER (WHERE phase = 'forward'"
    " OR (phase IN ('wait_params', 'wait_act_write') AND in_forward)), 0) AS fw,"
    " coalesce(sum(h.seconds) FILTER (WHERE phase IN ('loss', 'backward', 'grad_norm',"
    " 'grad_compress', 'wait_gradient', 'wait_residual', 'wait_act_read')"
    " OR (phase IN ('wait_params', 'wait_act_write') AND NOT in_forward)), 0) AS bw,"
    " coalesce(sum(h.seconds) FILTER (WHERE phase IN ('wait_update', 'wait_commit')"
    " OR (phase IN ('update', 'commit')"
    " AND (SELECT value FROM runs WHERE key = 'option.mode') = 'mem')), 0) AS up"
    " FROM steps s JOIN host h USING (step) WHERE s.seconds > 0 GROUP BY s.step)"
    " SELECT count(*), avg(seconds), avg(fw), avg(bw), avg(up), avg(max(0, seconds - fw - bw - up))"
    " FROM parts";

/* The rule of the view device_rate, a link's phases put together. */
static const char recent_rates[] =
    RECENT
    " wall AS (SELECT step, phase, device, coalesce(busy_ns, end_ns - start_ns) AS busy,"
    " max(0, end_ns - max(start_ns, coalesce(max(end_ns) OVER (PARTITION BY step, phase, device"
    " ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0))) AS wall"
    " FROM recent WHERE device >= 0)"
    " SELECT device, link, direction, sum(bytes) / sum(seconds) FROM"
    " (SELECT step, device, link, direction, sum(bytes) AS bytes,"
    " iif(phase = 'update', 'update_' || direction, phase) AS phase FROM traffic"
    " WHERE step >= %llu AND device >= 0 GROUP BY step, device, link, direction, phase)"
    " JOIN (SELECT step, device, phase, min(sum(wall), sum(busy)) / 1e9 AS seconds FROM wall"
    " GROUP BY step, device, phase) USING (step, device, phase)"
    " GROUP BY device, link, direction HAVING sum(seconds) > 0";

static int read_recent(struct look *f, struct runlog *log, struct err *err)
{
    unsigned long long first = f->done > WHOLE_STEPS ? f->done - WHOLE_STEPS : 0;
    int                rc = runlog_ask(log, parts_row, f, err, recent_parts, first, first);

    return rc ? rc : runlog_ask(log, rate_row, f, err, recent_rates, first, first, first);
}

static int read_all(struct look *f, struct runlog *log, struct err *err)
{
    uint64_t done = f->done, measured = f->measured;
    int      rc = read_run(f, log, err), same = f->done == done && f->measured == measured;

    if (!rc && f->done && (!same || !f->points)) {
        f->points = f->asked;
        f->devices = 0;
        memset(f->device, 0, sizeof f->device);
        rc = read_steps(f, log, err);
        rc = rc ? rc : read_recent(f, log, err);
    }
    f->evals = 0;
    *f->notice = '\0';
    rc = rc ? rc : runlog_ask(log, eval_row, f, err,
                              "SELECT step + 1, name, value FROM evals"
                              " WHERE step = (SELECT max(step) FROM evals) ORDER BY name");
    return rc ? rc : runlog_ask(log, notice_row, f, err,
                                "SELECT time, text FROM notices ORDER BY id DESC LIMIT 1");
}

static enum look_state state_of(const struct look *f, int writes)
{
    if (writes)
        return LOOK_AT_WORK;
    if (f->planned && f->done >= f->planned)
        return LOOK_FINISHED;
    return *f->who ? LOOK_KILLED : LOOK_STOPPED;
}

void look_read(struct look *f, const char *run, size_t points)
{
    struct err     err = { 0 };
    struct runlog *log = NULL;
    char          *path = file_path(&err, "%s/run.db", run);

    points = points < LOOK_CURVE ? points : LOOK_CURVE;
    f->points = f->asked == points ? f->points : 0;
    f->asked = points;
    int rc = path ? runlog_open(&log, path, 1, 0, &err) : -ENOMEM;
    if (rc == -ENOENT || rc == -ENOTDIR)
        err_misuse(&err, "%s is not a run: there is no %s", run, path);
    rc = rc ? rc : read_all(f, log, &err);
    runlog_close(log);
    if (rc) {
        *f = (struct look){ .misuse = err.misuse };
        snprintf(f->why, sizeof f->why, "%s", err.text);
    } else { // asked last: what was written before it ended is read
        f->state = state_of(f, runlog_writer(path, f->who, sizeof f->who));
    }
    free(path);
}
