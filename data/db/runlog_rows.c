/* runlog_rows.c: writes and reads the rows of a run's database: settings, notices, steps,
 * evaluations, devices, and the rows of any query for reports. Settings, steps and evaluations get
 * a checksum, so that a bit that flips later is detected (runlog_check.c). */
#include "data/db/runlog_parts.h"

#include "data/base/crc32c.h"
#include "data/db/real_bits.h"
#include "data/db/schema.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>

/* ---- checksums ---- */

uint32_t runlog_step_sum(const struct runlog_step *s)
{
    uint64_t row[] = { s->step, s->tokens, real_bits(s->loss), real_bits(s->lr),
                       real_bits(s->grad_norm), (uint64_t)s->clipped, (uint64_t)s->skipped };

    return crc32c(0, row, sizeof row);
}

uint32_t runlog_rewards_sum(uint64_t step, const struct runlog_rewards *r)
{
    uint64_t row[] = { step, r->pairs, real_bits(r->chosen), real_bits(r->rejected),
                       real_bits(r->accuracy) };

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
    struct err    why = { 0 };
    int           rc = db_row(&log->db, &st, "SELECT value FROM runs WHERE key = ?",
                              "reading a setting", &why, "t", key);
    const char   *text = rc > 0 ? (const char *)sqlite3_column_text(st, 0) : NULL;

    *out = text ? strdup(text) : NULL;
    if (rc >= 0)
        rc = *out ? 0 : text ? err_set(&why, -ENOMEM, "%s: out of memory", log->db.path) : -ENOENT;
    sqlite3_reset(st);
    if (!rc || rc == -ENOENT)
        return rc;
    if (!log->unread) {
        log->unread = rc;
        log->why = why;
    }
    if (err)
        *err = why;
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

int runlog_raise(struct runlog *log, enum run_format format, struct err *err)
{
    return schema_raise(&log->db, format, err);
}

int runlog_new_pairs(struct runlog *log, struct err *err)
{
    return schema_pairs(&log->db, err);
}

int runlog_notice(struct runlog *log, const char *text, struct err *err)
{
    return runlog_write(log, "INSERT INTO notices (time, text)"
                        " VALUES (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), ?)",
                        "writing a notice", err, "t", text);
}

int runlog_step(struct runlog *log, const struct runlog_step *s, struct err *err)
{
    const struct runlog_rewards *r = &s->rewards;
    int                          rc = 0;

    if (r->pairs) // a run of pairs has this table, which other runs lack (runlog_new_pairs)
        rc = runlog_write(log, "INSERT OR REPLACE INTO rewards VALUES (?, ?, ?, ?, ?, ?)",
                          "writing a step's rewards", err, "uudddu", s->step, r->pairs, r->chosen,
                          r->rejected, r->accuracy, (uint64_t)runlog_rewards_sum(s->step, r));
    if (rc)
        return rc;
    return runlog_write(log, "INSERT OR REPLACE INTO steps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                        "writing a step's row", err, "uudddiiduu", s->step, s->tokens, s->loss,
                        s->lr, s->grad_norm, s->clipped, s->skipped, s->seconds, s->peak_rss,
                        (uint64_t)runlog_step_sum(s));
}

int runlog_step_forget(struct runlog *log, uint64_t step)
{
    const struct runlog_step none = {
        .step = step, .loss = (double)NAN, .lr = (double)NAN, .grad_norm = (double)NAN
    };

    return runlog_step(log, &none, NULL);
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

int runlog_devices_forget(struct runlog *log, int from, struct err *err)
{
    return runlog_write(log, "DELETE FROM devices WHERE device >= ?", "removing devices", err, "i",
                        from);
}

int runlog_snapshot(struct runlog *log, const struct runlog_snapshot *s, struct err *err)
{
    int rc = runlog_begin(log, err);

    rc = rc ? rc : db_exec(&log->db, "making a table", err, "%s", SCHEMA_SNAPSHOTS);
    rc = rc ? rc : runlog_write(log, "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?, ?,"
                                " strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))", "writing a snapshot",
                                err, "uutuud", s->n, s->step, s->path, s->bytes, s->shared,
                                s->seconds);
    return runlog_end(log, rc, err);
}

/* ---- how far scrubbing has come, and what it has found damaged ---- */

static const char scrubbing[] = "writing a scrub";

static int scrubs_make(struct runlog *log, struct err *err)
{
    return db_exec(&log->db, "making a table", err, "%s", SCHEMA_SCRUBS);
}

int runlog_scrub(struct runlog *log, const struct runlog_scrub *s, struct err *err)
{
    int rc = scrubs_make(log, err);

    return rc ? rc : runlog_write(log, "INSERT OR REPLACE INTO scrubs VALUES (?, ?, ?, ?, ?)",
                                  scrubbing, err, "tuuuu", s->portion, s->position, s->verified_ns,
                                  s->passes, s->bytes);
}

int runlog_damage(struct runlog *log, const char *portion, const char *text, struct err *err)
{
    int rc = scrubs_make(log, err);

    return rc ? rc : runlog_write(log, "INSERT OR IGNORE INTO damages VALUES (?, ?,"
                                  " strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))", scrubbing, err, "tt",
                                  text, portion);
}

int runlog_scrub_over(struct runlog *log, const char *portion, int gone, struct err *err)
{
    int rc = scrubs_make(log, err);

    rc = rc ? rc : runlog_write(log, "DELETE FROM damages WHERE portion = ?", scrubbing, err, "t",
                                portion);
    return rc || !gone ? rc : runlog_write(log, "DELETE FROM scrubs WHERE portion = ?", scrubbing,
                                           err, "t", portion);
}

/* ---- reports ---- */

enum { QUESTION = 4096 };

/* A query is prepared without siTrain's views first, since most ask tables alone; the file's own
 * views may not be used (schema_guard). */
static int prepare(struct runlog *log, const char *sql, sqlite3_stmt **st, struct err *err)
{
    int rc = sqlite3_prepare_v2(log->db.sql, sql, -1, st, NULL);

    if (rc == SQLITE_ERROR && !log->db.views) {
        if ((rc = schema_views(&log->db, err)))
            return rc;
        rc = sqlite3_prepare_v2(log->db.sql, sql, -1, st, NULL);
    }
    return rc ? db_fail(&log->db, "a query", err) : 0;
}

int runlog_query(struct runlog *log, const char *sql,
                 int (*row)(void *ctx, int n, const char **values, const char **names), void *ctx,
                 struct err *err)
{
    enum { COLUMNS = 64 };
    const char   *values[COLUMNS], *names[COLUMNS];
    sqlite3_stmt *st = NULL;
    int           got, rc = prepare(log, sql, &st, err);

    if (rc)
        return rc;
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

static void question(char sql[static QUESTION], const char *fmt, va_list ap)
{
    int n = vsnprintf(sql, QUESTION, fmt, ap);

    assert(n >= 0 && n < QUESTION);
    (void)n;
}

int runlog_ask(struct runlog *log,
               int (*row)(void *ctx, int n, const char **values, const char **names), void *ctx,
               struct err *err, const char *fmt, ...)
{
    char    sql[QUESTION];
    va_list ap;

    va_start(ap, fmt);
    question(sql, fmt, ap);
    va_end(ap);
    return runlog_query(log, sql, row, ctx, err);
}

struct value { char *out; size_t size; };

static int value_row(void *ctx, int n, const char **values, const char **names)
{
    const struct value *v = ctx;

    (void)n, (void)names;
    if (!*v->out && values[0])
        snprintf(v->out, v->size, "%s", values[0]);
    return 0;
}

int runlog_value(struct runlog *log, char *out, size_t size, struct err *err, const char *fmt, ...)
{
    char         sql[QUESTION];
    struct value v = { out, size };
    va_list      ap;

    *out = '\0';
    va_start(ap, fmt);
    question(sql, fmt, ap);
    va_end(ap);
    return runlog_query(log, sql, value_row, &v, err);
}

int runlog_keep(struct runlog *log, const char *name, const char *columns, struct err *err,
                const char *fmt, ...)
{
    char    sql[QUESTION];
    va_list ap;

    va_start(ap, fmt);
    question(sql, fmt, ap);
    va_end(ap);
    int rc = schema_views(&log->db, err);

    if (rc)
        return rc;
    return db_exec(&log->db, "a query", err, "PRAGMA query_only=0; CREATE TEMP TABLE %s AS %s;"
                   " CREATE INDEX temp.%s_by ON %s (%s); PRAGMA query_only=1", name, sql, name,
                   name, columns);
}
