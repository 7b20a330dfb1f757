/* runlog_rows.c: the rows of a run's database: settings, notices, steps, evaluations, devices,
 * measurements, and any query's for the reports.
 *
 * What goes into settings, steps and evaluations is summed as it is written, so that a bit that
 * turned later is seen (runlog_check.c). Measurements are not: no run depends on them.
 *
 * Size: a step is stored whole when it comes, being the newest; `whole` lists the steps that will
 * have to be folded once 100 newer ones exist. So nothing is searched: each runlog_measure folds
 * the one step (or, after a gap, the few) that fell out of the window. */
#include "data/db/runlog_db.h"

#include "data/base/crc32c.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KEEP_FIRST = 100, KEEP_LAST = 100, KEEP_EVERY = 1000 };

const char *const runlog_phase_names[PHASES] = {
    [PHASE_SETUP] = "setup",
    [PHASE_FORWARD] = "forward",
    [PHASE_BACKWARD] = "backward",
    [PHASE_LOSS] = "loss",
    [PHASE_GRAD_COMPRESS] = "grad_compress",
    [PHASE_GRAD_WRITE] = "grad_write",
    [PHASE_UPDATE] = "update",
    [PHASE_UPDATE_READ] = "update_read",
    [PHASE_UPDATE_COMPUTE] = "update_compute",
    [PHASE_UPDATE_WRITE] = "update_write",
    [PHASE_PARAM_READ] = "param_read",
    [PHASE_ACT_WRITE] = "act_write",
    [PHASE_ACT_READ] = "act_read",
    [PHASE_OPTIMIZER_WAIT] = "optimizer_wait",
    [PHASE_DATA] = "data",
    [PHASE_COMMIT] = "commit",
    [PHASE_EVAL] = "eval",
    [PHASE_REDO] = "redo",
};

/* ---- their sums ---- */

uint32_t runlog_setting_sum(const char *key, const char *value)
{
    return crc32c(crc32c(0, key, strlen(key) + 1), value, strlen(value));
}

/* A number as SQLite gives it back: any NaN is NULL, and zero has no sign. */
static uint64_t real_bits(double x)
{
    uint64_t bits;

    x += 0.0;
    memcpy(&bits, &x, sizeof bits);
    return x == x ? bits : UINT64_MAX;
}

uint32_t runlog_step_sum(const struct runlog_step *s)
{
    uint64_t row[] = { s->step,
                       s->tokens,
                       real_bits(s->loss),
                       real_bits(s->lr),
                       real_bits(s->grad_norm),
                       (uint64_t)s->clipped,
                       (uint64_t)s->skipped };

    return crc32c(0, row, sizeof row);
}

uint32_t runlog_eval_sum(uint64_t step, const char *name, double value)
{
    uint64_t row[] = { step, real_bits(value) };

    return crc32c(crc32c(0, row, sizeof row), name, strlen(name));
}

/* ---- rows ---- */

int runlog_set(struct runlog *log, const char *key, const char *value, struct err *err)
{
    return runlog_db_run(log, SQL_SET, "writing a setting", err, "tti", key, value,
                         (sqlite3_int64)runlog_setting_sum(key, value));
}

int runlog_get(struct runlog *log, const char *key, char *buf, size_t size, struct err *err)
{
    int         rc = runlog_db_row(log, SQL_GET, "reading a setting", err, "t", key);
    const char *text = rc > 0 ? (const char *)sqlite3_column_text(log->stmt[SQL_GET], 0) : NULL;

    if (rc >= 0)
        rc = text ? 0 : -ENOENT;
    if (!rc && (size_t)snprintf(buf, size, "%s", text) >= size)
        rc = err_set(err, -E2BIG, "%s: the setting %s has %zu bytes; at most %zu were expected",
                     log->path, key, strlen(text), size - 1);
    if (log->stmt[SQL_GET])
        sqlite3_reset(log->stmt[SQL_GET]);
    return rc;
}

int runlog_notice(struct runlog *log, const char *text, struct err *err)
{
    return runlog_db_run(log, SQL_NOTICE, "writing a notice", err, "t", text);
}

int runlog_step(struct runlog *log, const struct runlog_step *s, struct err *err)
{
    return runlog_db_run(log, SQL_STEP, "writing a step's row", err, "iidddiidii",
                         (sqlite3_int64)s->step, (sqlite3_int64)s->tokens, s->loss, s->lr,
                         s->grad_norm, (sqlite3_int64)s->clipped, (sqlite3_int64)s->skipped,
                         s->seconds, (sqlite3_int64)s->peak_rss, (sqlite3_int64)runlog_step_sum(s));
}

int runlog_step_forget(struct runlog *log, uint64_t step, struct err *err)
{
    const struct runlog_step none = {
        .step = step, .loss = (double)NAN, .lr = (double)NAN, .grad_norm = (double)NAN
    };

    return runlog_step(log, &none, err);
}

int runlog_step_done(struct runlog *log, uint64_t step, double seconds, uint64_t peak_rss,
                     struct err *err)
{
    return runlog_db_run(log, SQL_STEP_DONE, "writing a step's row", err, "dii", seconds,
                         (sqlite3_int64)peak_rss, (sqlite3_int64)step);
}

int runlog_eval(struct runlog *log, uint64_t step, const char *name, double value, struct err *err)
{
    return runlog_db_run(log, SQL_EVAL, "writing an evaluation", err, "itdi", (sqlite3_int64)step,
                         name, value, (sqlite3_int64)runlog_eval_sum(step, name, value));
}

int runlog_device(struct runlog *log, int device, const char *path, const char *backend,
                  const char *disk, uint64_t bytes, struct err *err)
{
    return runlog_db_run(log, SQL_DEVICE, "writing a device", err, "ittti", (sqlite3_int64)device,
                         path, backend, disk, (sqlite3_int64)bytes);
}

/* ---- measurements ---- */

/* Folded rows are appended, then the step's rows that were there before are dropped: theirs are the
 * rowids up to `last`. */
static int fold_step(struct runlog *log, sqlite3_int64 step, struct err *err)
{
    static const enum runlog_sql of[2][3] = { { SQL_SPANS_LAST, SQL_SPANS_FOLD, SQL_SPANS_DROP },
                                              { SQL_TRAFFIC_LAST, SQL_TRAFFIC_FOLD,
                                                SQL_TRAFFIC_DROP } };
    const char *doing = "folding an old step";

    for (int t = 0; t < 2; t++) {
        sqlite3_int64 last = 0;
        int           rc = runlog_db_row(log, of[t][0], doing, err, "");

        if (rc > 0)
            last = sqlite3_column_int64(log->stmt[of[t][0]], 0);
        sqlite3_reset(log->stmt[of[t][0]]);
        if (rc >= 0)
            rc = runlog_db_run(log, of[t][1], doing, err, "i", step);
        if (!rc)
            rc = runlog_db_run(log, of[t][2], doing, err, "ii", step, last);
        if (rc)
            return rc;
    }
    return runlog_db_run(log, SQL_WHOLE_DELETE, doing, err, "i", step);
}

static int fold_old(struct runlog *log, uint64_t newest, struct err *err)
{
    sqlite3_int64 step = 0, until = (sqlite3_int64)newest - KEEP_LAST;
    int           rc;

    while ((rc = runlog_db_row(log, SQL_WHOLE_NEXT, "folding an old step", err, "i", until)) > 0) {
        step = sqlite3_column_int64(log->stmt[SQL_WHOLE_NEXT], 0);
        sqlite3_reset(log->stmt[SQL_WHOLE_NEXT]);
        rc = fold_step(log, step, err);
        if (rc)
            return rc;
    }
    sqlite3_reset(log->stmt[SQL_WHOLE_NEXT]);
    return rc;
}

int runlog_measure(struct runlog *log, uint64_t step, const struct runlog_span *spans,
                   size_t n_spans, const struct runlog_traffic *traffic, size_t n_traffic,
                   struct err *err)
{
    const char   *doing = "writing a step's measurements";
    sqlite3_int64 at = (sqlite3_int64)step;
    int           rc = runlog_db_run(log, SQL_SPANS_DELETE, doing, err, "i", at);

    if (!rc)
        rc = runlog_db_run(log, SQL_TRAFFIC_DELETE, doing, err, "i", at);
    for (size_t i = 0; i < n_spans && !rc; i++) {
        const struct runlog_span *s = &spans[i];

        rc = runlog_db_run(log, SQL_SPAN, doing, err, "itiiiii", at, runlog_phase_names[s->phase],
                           (sqlite3_int64)s->block, (sqlite3_int64)s->device,
                           (sqlite3_int64)s->start_ns, (sqlite3_int64)s->end_ns,
                           (sqlite3_int64)s->bytes);
    }
    for (size_t i = 0; i < n_traffic && !rc; i++) {
        const struct runlog_traffic *t = &traffic[i];

        rc = runlog_db_run(log, SQL_TRAFFIC, doing, err, "ittittii", at,
                           runlog_phase_names[t->phase], t->link, (sqlite3_int64)t->device, t->cls,
                           t->dir, (sqlite3_int64)t->bytes, (sqlite3_int64)t->padding_bytes);
    }
    if (!rc && step >= KEEP_FIRST && step % KEEP_EVERY)
        rc = runlog_db_run(log, SQL_WHOLE_ADD, doing, err, "i", at);
    return rc ? rc : fold_old(log, step, err);
}

/* ---- reports ---- */

int runlog_query(struct runlog *log, const char *sql,
                 int (*row)(void *ctx, int n, const char **values, const char **names), void *ctx,
                 struct err *err)
{
    enum { COLUMNS = 64 };
    const char   *values[COLUMNS], *names[COLUMNS];
    sqlite3_stmt *st = NULL;
    int           n, got, rc = 0;

    if (sqlite3_prepare_v2(log->db, sql, -1, &st, NULL))
        return runlog_fail(log, "a query", err);
    n = sqlite3_column_count(st);
    assert(sqlite3_stmt_readonly(st) && n <= COLUMNS);
    while (!rc && (got = sqlite3_step(st)) != SQLITE_DONE) {
        if (got != SQLITE_ROW) {
            rc = runlog_fail(log, "a query", err);
            break;
        }
        for (int i = 0; i < n; i++) {
            values[i] = (const char *)sqlite3_column_text(st, i);
            names[i] = sqlite3_column_name(st, i);
        }
        rc = row(ctx, n, values, names);
    }
    sqlite3_finalize(st);
    return rc;
}
