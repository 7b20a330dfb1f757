/* look.c: asks run.db for the figures of `siTrain watch`. Each query reads only the last steps or a
 * sample of all, so a look takes milliseconds even after 100,000 steps. The definitions are those
 * of run.db's views, so that `siTrain report` agrees. */
#include "cmd/terminal/look.h"

#include "data/file/file.h"
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
    f->early = values[8] != NULL;
    return 0;
}

/* Stores a row of numbers in the places that ctx lists. */
static int numbers_row(void *ctx, int n, const char **values, const char **names)
{
    double *const *to = ctx;

    (void)names;
    for (int i = 0; i < n; i++)
        *to[i] = runlog_real(values[i]);
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
                      " AND value LIKE '%% arenas of emulated devices'),"
                      " (SELECT value FROM runs WHERE key = 'finished' AND value = 'early')",
                      LOOK_SKIPPED);
}

static int read_steps(struct look *f, struct runlog *log, struct err *err)
{
    unsigned long long done = f->done;
    double *const step[] = { &f->loss, &f->lr, &f->norm, &f->clipped };
    double *const median[] = { &f->median, &f->step_tokens };
    int rc = runlog_ask(log, numbers_row, (void *)(uintptr_t)step, err,
                        "SELECT loss, lr, grad_norm, clipped FROM steps WHERE step = %llu",
                        done - 1);

    rc = rc ? rc : runlog_ask(log, numbers_row, (void *)(uintptr_t)median, err,
                              "WITH s AS (SELECT *, row_number() OVER (ORDER BY seconds) AS i,"
                              " count(*) OVER () AS n FROM steady_steps WHERE step + %d >= %llu)"
                              " SELECT avg(seconds), (SELECT avg(tokens) FROM s) FROM s"
                              " WHERE i IN ((n + 1) / 2, (n + 2) / 2)", STEADY_STEPS, done);
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

/* Reads the last whole steps. A link's phases are added up. */
static int read_recent(struct look *f, struct runlog *log, struct err *err)
{
    double *const parts[] = { &f->whole, &f->seconds, &f->part[0], &f->part[1], &f->part[2],
                              &f->part[3] };
    int           rc = runlog_since(log, f->done > WHOLE_STEPS ? f->done - WHOLE_STEPS : 0, err);

    rc = rc ? rc : runlog_ask(log, numbers_row, (void *)(uintptr_t)parts, err,
                              "SELECT count(*), avg(seconds), avg(fw), avg(bw_grad),"
                              " avg(\"update\"), avg(other) FROM breakdown");
    return rc ? rc : runlog_ask(log, rate_row, f, err,
                                "SELECT device, link, direction, sum(bytes) / sum(busy_seconds)"
                                " FROM device_rate GROUP BY device, link, direction");
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

static enum look_state state_of(const struct look *f, enum run_lock_holder writer)
{
    if (writer != HOLDER_NONE)
        return LOOK_AT_WORK;
    if (f->planned && f->done >= f->planned)
        return LOOK_FINISHED;
    if (f->early)
        return LOOK_EARLY;
    return *f->who ? LOOK_KILLED : LOOK_STOPPED;
}

void look_read(struct look *f, const char *run, size_t points)
{
    struct err     err = { 0 };
    struct runlog *log = NULL;
    int            rc = runlog_open_run(&log, run, &err);
    char          *path = rc ? NULL : file_path(&err, "%s", runlog_path(log));

    points = points < LOOK_CURVE ? points : LOOK_CURVE;
    f->points = f->asked == points ? f->points : 0;
    f->asked = points;
    rc = rc ? rc : path ? read_all(f, log, &err) : -ENOMEM;
    runlog_close(log);
    if (rc) {
        *f = (struct look){ .why = err };
    } else { // asked last: everything written before the end is read
        f->state = state_of(f, runlog_writer(path, f->who, sizeof f->who));
    }
    free(path);
}
