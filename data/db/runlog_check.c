/* runlog_check.c: checks that rows are as they were written. When a run goes on, it checks the
 * steps; for `siTrain check`, it checks everything and may repair.
 *
 * SQLite detects a torn page, and a table that contradicts its index, but not a value with a
 * flipped bit. Our checksums detect that, and a gap in the steps shows that rows were lost with
 * whole pages. A row without a checksum passes: its run began before there were any. Repair never
 * invents a number: a step's numbers become NULL, and an evaluation's row is deleted. */
#include "data/db/runlog_parts.h"

#include <math.h>
#include <stdarg.h>
#include <sys/stat.h>

/* ---- checking everything ---- */

struct checking {
    struct runlog       *log;
    struct runlog_check *out;
    void               (*say)(void *ctx, const char *sentence);
    void                *ctx;
    int                  mend;
    int                  rc; // the database could not be read; `err` says why
    struct err          *err;
};

__attribute__((format(printf, 2, 3)))
static void say_damage(struct checking *c, const char *fmt, ...)
{
    char    text[sizeof((struct err *)0)->text];
    va_list ap;
    int     n = snprintf(text, sizeof text, "%.800s: ", c->log->db.path);

    va_start(ap, fmt);
    vsnprintf(text + n, sizeof text - (size_t)n, fmt, ap);
    va_end(ap);
    c->out->damaged++;
    c->say(c->ctx, text);
}

/* SQLite failed. Reports damage, or sets c->rc if the database could not be read. */
static void check_failed(struct checking *c)
{
    sqlite3   *sql = c->log->db.sql;
    struct err why = { 0 };
    int        rc = db_fail(&c->log->db, "checking it", &why);

    if (rc == -EBADMSG || sqlite3_errcode(sql) == SQLITE_ERROR) { // no such table or column
        say_damage(c, "%s", sqlite3_errmsg(sql));
    } else if (!c->rc) {
        c->rc = rc;
        *c->err = why;
    }
}

/* Passes each row of a query to row(). Returns whether the end was reached. */
static int check_rows(struct checking *c, const char *sql,
                      void (*row)(struct checking *c, sqlite3_stmt *st))
{
    sqlite3_stmt *st = NULL;
    int           got = sqlite3_prepare_v2(c->log->db.sql, sql, -1, &st, NULL);

    while (got == SQLITE_OK || got == SQLITE_ROW)
        if ((got = sqlite3_step(st)) == SQLITE_ROW)
            row(c, st);
    if (got != SQLITE_DONE)
        check_failed(c);
    sqlite3_finalize(st);
    return got == SQLITE_DONE;
}

static void integrity_row(struct checking *c, sqlite3_stmt *st)
{
    const char *text = (const char *)sqlite3_column_text(st, 0);

    if (strcmp(text, "ok") && !c->rc &&
        !(c->rc = db_read_check(&c->log->db, "checking it", c->err)))
        say_damage(c, "%s", text);
}

static double column_real(sqlite3_stmt *st, int i)
{
    return sqlite3_column_type(st, i) == SQLITE_NULL ? (double)NAN : sqlite3_column_double(st, i);
}

/* Replaces the rows of steps [from, end) by empty ones. */
static void steps_forget(struct checking *c, uint64_t from, uint64_t end)
{
    int rc = !c->mend;

    for (; from < end && !rc; from++)
        rc = runlog_step_forget(c->log, from);
    c->out->mended += !rc;
}

static void eval_forget(struct checking *c, sqlite3_stmt *st)
{
    c->out->mended +=
        c->mend && !runlog_write(c->log, "DELETE FROM evals WHERE step = ? AND name IS ?",
                                 "removing an evaluation", NULL, "ut", sqlite3_column_int64(st, 0),
                                 (const char *)sqlite3_column_text(st, 1));
}

/* Checks a row of steps. Rows come in the order of steps, each once, because the step is the
 * key. */
static void step_row(struct checking *c, sqlite3_stmt *st)
{
    struct runlog_step s = {
        .step = (uint64_t)sqlite3_column_int64(st, 0),
        .tokens = (uint64_t)sqlite3_column_int64(st, 1),
        .loss = column_real(st, 2),
        .lr = column_real(st, 3),
        .grad_norm = column_real(st, 4),
        .clipped = sqlite3_column_int(st, 5),
        .skipped = sqlite3_column_int(st, 6),
    };

    if (s.step != c->out->steps) {
        say_damage(c, "table steps: after %llu rows, step %llu should come, but %llu does",
                   (unsigned long long)c->out->steps, (unsigned long long)c->out->steps + 1,
                   (unsigned long long)s.step + 1);
        steps_forget(c, c->out->steps, s.step);
    }
    if (sqlite3_column_type(st, 7) != SQLITE_NULL &&
        (sqlite3_column_int64(st, 7) != runlog_step_sum(&s) ||
         sqlite3_column_int64(st, 5) != s.clipped || sqlite3_column_int64(st, 6) != s.skipped)) {
        say_damage(c, "table steps: the row of step %llu is damaged (checksum differs)",
                   (unsigned long long)s.step + 1);
        steps_forget(c, s.step, s.step + 1);
    }
    c->out->steps = s.step + 1;
}

static const char all_steps[] =
    "SELECT step, tokens, loss, lr, grad_norm, clipped, skipped, sum FROM steps ORDER BY step";

static void eval_row(struct checking *c, sqlite3_stmt *st)
{
    const char *name = (const char *)sqlite3_column_text(st, 1);
    uint64_t    step = (uint64_t)sqlite3_column_int64(st, 0);

    if (!name || (sqlite3_column_type(st, 3) != SQLITE_NULL &&
                  sqlite3_column_int64(st, 3) != runlog_eval_sum(step, name, column_real(st, 2)))) {
        say_damage(c, "table evals: the row %s of step %llu is damaged (checksum differs)",
                   name ? name : "without a name", (unsigned long long)step + 1);
        eval_forget(c, st);
    }
    c->out->evals++;
}

static void rewards_row(struct checking *c, sqlite3_stmt *st)
{
    uint64_t              step = (uint64_t)sqlite3_column_int64(st, 0);
    struct runlog_rewards r = { (uint64_t)sqlite3_column_int64(st, 1), column_real(st, 2),
                                column_real(st, 3), column_real(st, 4) };

    if (sqlite3_column_int64(st, 5) == runlog_rewards_sum(step, &r))
        return;
    say_damage(c, "table rewards: the row of step %llu is damaged (checksum differs)",
               (unsigned long long)step + 1);
    c->out->mended += c->mend && !runlog_write(c->log, "DELETE FROM rewards WHERE step = ?",
                                               "removing a step's rewards", NULL, "u", step);
}

int runlog_check(struct runlog *log, int mend, void (*say)(void *ctx, const char *sentence),
                 void *ctx, struct runlog_check *out, struct err *err)
{
    struct checking c = { log, out, say, ctx, mend, .err = err };
    struct stat     st;
    int64_t         settings, pairs = 0;

    *out = (struct runlog_check){ 0 };
    if (stat(log->db.path, &st))
        return err_set(err, -errno, "%s: %s", log->db.path, strerror(errno));
    out->bytes = (uint64_t)st.st_size;
    if (!check_rows(&c, "PRAGMA integrity_check", integrity_row) || out->damaged || c.rc)
        return c.rc; // rows of damaged pages mean nothing
    if (db_number(&log->db, "SELECT count(*) FROM runs", &settings))
        check_failed(&c);
    out->settings = (uint64_t)settings;
    check_rows(&c, all_steps, step_row);
    check_rows(&c, "SELECT step, name, value, sum FROM evals", eval_row);
    if (!db_number(&log->db, "SELECT count(*) FROM sqlite_schema WHERE name = 'rewards'", &pairs) &&
        pairs)
        check_rows(&c, "SELECT step, pairs, chosen, rejected, accuracy, sum FROM rewards",
                   rewards_row);
    return c.rc;
}

static void say_first(void *ctx, const char *sentence)
{
    struct err *first = ctx;

    if (!first->text[0])
        snprintf(first->text, sizeof first->text, "%s", sentence);
}

int runlog_check_steps(struct runlog *log, uint64_t n, struct err *err)
{
    struct runlog_check found = { 0 };
    struct err          first = { 0 };
    struct checking     c = { log, &found, say_first, &first, .err = err };

    check_rows(&c, all_steps, step_row);
    if (c.rc)
        return c.rc;
    if (!found.damaged && found.steps < n)
        say_damage(&c, "table steps: it ends after step %llu, but %llu steps were committed",
                   (unsigned long long)found.steps, (unsigned long long)n);
    return !found.damaged ? 0
           : log->left    ? err_set(err, -EBADMSG, "%s; its log %s-wal may be of another "
                                    "time, if a backup restored only one of them: restore both "
                                    "files from one time", first.text, log->db.path)
                          : err_set(err, -EBADMSG, "%s", first.text);
}
