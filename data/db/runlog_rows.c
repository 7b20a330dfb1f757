/* runlog_rows.c: the rows of a run's database: settings, notices, steps, evaluations, devices,
 * measurements, and any query's for the reports.
 *
 * What goes into settings, steps and evaluations is summed as it is written, so that a bit that
 * turned later is seen (runlog_check.c). Measurements are not: no run depends on them.
 *
 * Size: a step is stored whole when it comes, being the newest; `whole` lists the steps that will
 * have to be folded once 100 newer ones exist. So nothing is searched: each runlog_measure folds
 * the one step (or, after a gap, the few) that fell out of the window. */
#include "data/db/runlog_parts.h"

#include "data/base/crc32c.h"
#include "data/db/real_bits.h"

#include <assert.h>
#include <math.h>

enum { KEEP_FIRST = 100, KEEP_LAST = 100, KEEP_EVERY = 1000 };

const char *const runlog_phase_names[PHASES] = {
    "setup", "forward", "backward", "loss", "grad_compress", "grad_write", "update", "update_read",
    "update_compute", "update_write", "update_params", "param_read", "act_write", "act_read",
    "optimizer_wait", "data", "commit", "eval", "redo",
};

/* ---- their sums ---- */

uint32_t runlog_step_sum(const struct runlog_step *s)
{
    uint64_t row[] = { s->step, s->tokens, real_bits(s->loss), real_bits(s->lr),
                       real_bits(s->grad_norm), (uint64_t)s->clipped, (uint64_t)s->skipped };

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
    return runlog_write(log, "INSERT OR REPLACE INTO runs VALUES (?, ?, ?)", "writing a setting",
                        err, "ttu", key, value, (uint64_t)runlog_setting_sum(key, value));
}

int runlog_unset(struct runlog *log, const char *key, struct err *err)
{
    return runlog_write(log, "DELETE FROM runs WHERE key = ?", "removing a setting", err, "t", key);
}

int runlog_text(struct runlog *log, const char *key, char **out, struct err *err)
{
    sqlite3_stmt *st;
    int           rc = db_row(&log->db, &st, "SELECT value FROM runs WHERE key = ?",
                              "reading a setting", err, "t", key);
    const char   *text = rc > 0 ? (const char *)sqlite3_column_text(st, 0) : NULL;

    *out = text ? strdup(text) : NULL;
    if (rc >= 0)
        rc = *out ? 0 : text ? err_set(err, -ENOMEM, "%s: out of memory", log->db.path) : -ENOENT;
    sqlite3_reset(st);
    return rc;
}

int runlog_get(struct runlog *log, const char *key, char *buf, size_t size, struct err *err)
{
    char *text;
    int   rc = runlog_text(log, key, &text, err);

    if (!rc && (size_t)snprintf(buf, size, "%s", text) >= size)
        rc = err_set(err, -E2BIG, "%s: the setting %s has %zu bytes; at most %zu were expected",
                     log->db.path, key, strlen(text), size - 1);
    free(text);
    return rc;
}

int runlog_notice(struct runlog *log, const char *text, struct err *err)
{
    return runlog_write(log, "INSERT INTO notices (time, text)"
                        " VALUES (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), ?)",
                        "writing a notice", err, "t", text);
}

int runlog_step(struct runlog *log, const struct runlog_step *s, struct err *err)
{
    return runlog_write(log, "INSERT OR REPLACE INTO steps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                        "writing a step's row", err, "uudddiiduu", s->step, s->tokens, s->loss,
                        s->lr, s->grad_norm, s->clipped, s->skipped, s->seconds, s->peak_rss,
                        (uint64_t)runlog_step_sum(s));
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
    return runlog_write(log, "UPDATE steps SET seconds = ?, peak_rss = ? WHERE step = ?",
                        "writing a step's row", err, "duu", seconds, peak_rss, step);
}

int runlog_eval(struct runlog *log, uint64_t step, const char *name, double value, struct err *err)
{
    return runlog_write(log, "INSERT OR REPLACE INTO evals VALUES (?, ?, ?, ?)",
                        "writing an evaluation", err, "utdu", step, name, value,
                        (uint64_t)runlog_eval_sum(step, name, value));
}

int runlog_device(struct runlog *log, int device, const char *path, const char *backend,
                  const char *disk, uint64_t bytes, struct err *err)
{
    return runlog_write(log, "INSERT OR REPLACE INTO devices VALUES (?, ?, ?, ?, ?)",
                        "writing a device", err, "itttu", device, path, backend, disk, bytes);
}

int runlog_devices_forget(struct runlog *log, struct err *err)
{
    return runlog_write(log, "DELETE FROM devices", "removing devices", err, "");
}

/* ---- measurements ---- */

static const char folding[] = "folding an old step", measuring[] = "writing a step's measurements";

/* The first value of a row, or `none`. */
static int first_of(struct runlog *log, const char *text, uint64_t bound, int64_t none,
                    int64_t *out, struct err *err)
{
    sqlite3_stmt *st;
    int           got = db_row(&log->db, &st, text, folding, err, "u", bound);

    *out = got > 0 ? sqlite3_column_int64(st, 0) : none;
    sqlite3_reset(st);
    return got < 0 ? got : 0;
}

/* Folded rows are appended, then the step's rows that were there before are dropped: theirs are the
 * rowids up to `last`. */
static int fold_step(struct runlog *log, uint64_t step, struct err *err)
{
    static const struct { const char *last, *fold, *drop; } of[] = {
        { "SELECT max(rowid) FROM spans WHERE step = ?",
          "INSERT INTO spans SELECT step, phase, -1, -1, 0, sum(end_ns - start_ns), sum(bytes)"
          " FROM spans WHERE step = ? GROUP BY phase",
          "DELETE FROM spans WHERE step = ? AND rowid <= ?" },
        { "SELECT max(rowid) FROM traffic WHERE step = ?",
          "INSERT INTO traffic SELECT step, phase, link, -1, class, direction, sum(bytes),"
          " sum(padding_bytes) FROM traffic WHERE step = ? GROUP BY phase, link, class, direction",
          "DELETE FROM traffic WHERE step = ? AND rowid <= ?" },
    };
    int rc = 0;

    for (int t = 0; t < 2 && !rc; t++) {
        int64_t last;

        rc = first_of(log, of[t].last, step, 0, &last, err);
        rc = rc ? rc : db_run(&log->db, of[t].fold, folding, err, "u", step);
        rc = rc ? rc : db_run(&log->db, of[t].drop, folding, err, "uu", step, last);
    }
    return rc ? rc : db_run(&log->db, "DELETE FROM whole WHERE step = ?", folding, err, "u", step);
}

static int fold_old(struct runlog *log, uint64_t newest, struct err *err)
{
    int64_t step;
    int     rc;

    while (!(rc = first_of(log, "SELECT step FROM whole WHERE step <= ? ORDER BY step LIMIT 1",
                           newest - KEEP_LAST, -1, &step, err)) && step >= 0)
        if ((rc = fold_step(log, (uint64_t)step, err)))
            break;
    return rc;
}

int runlog_measure(struct runlog *log, uint64_t step, const struct runlog_span *spans,
                   size_t n_spans, const struct runlog_traffic *traffic, size_t n_traffic,
                   struct err *err)
{
    int own = sqlite3_get_autocommit(log->db.sql), rc = own ? runlog_begin(log, err) : 0;

    rc = rc ? rc : db_run(&log->db, "DELETE FROM spans WHERE step = ?", measuring, err, "u", step);
    if (!rc)
        rc = db_run(&log->db, "DELETE FROM traffic WHERE step = ?", measuring, err, "u", step);
    for (size_t i = 0; i < n_spans && !rc; i++) {
        const struct runlog_span *s = &spans[i];

        rc = db_run(&log->db, "INSERT INTO spans VALUES (?, ?, ?, ?, ?, ?, ?)", measuring, err,
                    "utiiuuu", step, runlog_phase_names[s->phase], s->block, s->device, s->start_ns,
                    s->end_ns, s->bytes);
    }
    for (size_t i = 0; i < n_traffic && !rc; i++) {
        const struct runlog_traffic *t = &traffic[i];

        rc = db_run(&log->db, "INSERT INTO traffic VALUES (?, ?, ?, ?, ?, ?, ?, ?)", measuring, err,
                    "uttittuu", step, runlog_phase_names[t->phase], t->link, t->device, t->cls,
                    t->dir, t->bytes, t->padding_bytes);
    }
    if (!rc && step >= KEEP_FIRST && step % KEEP_EVERY)
        rc = db_run(&log->db, "INSERT OR IGNORE INTO whole VALUES (?)", measuring, err, "u", step);
    if (!rc && step >= KEEP_LAST)
        rc = fold_old(log, step, err);
    return own ? runlog_end(log, rc, err) : rc;
}

/* ---- reports ---- */

int runlog_query(struct runlog *log, const char *sql,
                 int (*row)(void *ctx, int n, const char **values, const char **names), void *ctx,
                 struct err *err)
{
    enum { COLUMNS = 64 };
    const char   *values[COLUMNS], *names[COLUMNS];
    sqlite3_stmt *st = NULL;
    int           got, rc = 0;

    if (sqlite3_prepare_v2(log->db.sql, sql, -1, &st, NULL))
        return db_fail(&log->db, "a query", err);
    int n = sqlite3_column_count(st);
    assert(sqlite3_stmt_readonly(st) && n <= COLUMNS);
    while (!rc && (got = db_next(&log->db, st, "a query", err))) {
        for (int i = 0; i < n && got > 0; i++) {
            values[i] = (const char *)sqlite3_column_text(st, i);
            names[i] = sqlite3_column_name(st, i);
        }
        rc = got < 0 ? got : row(ctx, n, values, names);
    }
    sqlite3_finalize(st);
    return rc;
}
