/* branches.c: moves the rows of a branch. Two histories of a run are the same up to the first step
 * whose rows differ, apart from their times. */
#include "data/db/branches.h"

#include "data/db/runlog_parts.h"
#include "data/db/schema.h"

/* The tables that have rows of steps. Not all runs have the last one. */
static const char *const tables[] = { "steps", "evals", "choices", "rewards" };
enum { TABLES = sizeof tables / sizeof *tables };

static const char moving[] = "moving the rows of a branch";

static int has_table(struct runlog *log, const char *table)
{
    sqlite3_stmt *st = NULL;
    int has = sqlite3_prepare_v2(log->db.sql, "SELECT 1 FROM sqlite_schema WHERE type = 'table' "
                                 "AND name = ?", -1, &st, NULL) == SQLITE_OK &&
              sqlite3_bind_text(st, 1, table, -1, SQLITE_STATIC) == SQLITE_OK &&
              sqlite3_step(st) == SQLITE_ROW;

    sqlite3_finalize(st);
    return has;
}

/* ---- where two histories part ---- */

static int same_value(sqlite3_stmt *a, sqlite3_stmt *b, int i)
{
    if (sqlite3_column_type(a, i) != sqlite3_column_type(b, i))
        return 0;
    if (sqlite3_column_type(a, i) == SQLITE_FLOAT)
        return !(sqlite3_column_double(a, i) < sqlite3_column_double(b, i)) &&
               !(sqlite3_column_double(a, i) > sqlite3_column_double(b, i));
    return sqlite3_column_int64(a, i) == sqlite3_column_int64(b, i);
}

/* *first: the first step, at most `to`, that the histories do not share. */
static int find_fork(uint64_t *first, struct runlog *log, struct runlog *from, uint64_t to,
                     struct err *err)
{
    static const char rows[] = "SELECT step, tokens, loss, lr, grad_norm, clipped, skipped"
                               " FROM steps WHERE step < ? ORDER BY step";
    enum { COLUMNS = 7 };
    sqlite3_stmt *a = NULL, *b = NULL;
    int           got = db_row(&log->db, &a, rows, moving, err, "u", to);
    int           their = got < 0 ? got : db_row(&from->db, &b, rows, moving, err, "u", to);

    *first = 0;
    while (got > 0 && their > 0) {
        for (int i = 0; i < COLUMNS && got > 0; i++)
            got = same_value(a, b, i);
        if (got > 0) {
            *first = (uint64_t)sqlite3_column_int64(a, 0) + 1;
            got = db_next(&log->db, a, moving, err);
            their = got < 0 ? got : db_next(&from->db, b, moving, err);
        }
    }
    sqlite3_reset(a);
    sqlite3_reset(b);
    return got < 0 ? got : their < 0 ? their : 0;
}

/* ---- moving ---- */

/* Move the rows from step `first` on to the tables of branch n. */
static int put_aside(struct runlog *log, const char *table, uint64_t first, uint64_t n,
                     struct err *err)
{
    int rc = db_exec(&log->db, moving, err,
                     "CREATE TABLE IF NOT EXISTS left_%s AS SELECT 0 AS branch, * FROM %s WHERE 0;"
                     "CREATE INDEX IF NOT EXISTS left_%s_step ON left_%s (branch, step)",
                     table, table, table, table);

    if (!rc && n)
        rc = db_exec(&log->db, moving, err, "INSERT INTO left_%s SELECT %lld, * FROM %s"
                     " WHERE step >= %lld", table, (long long)n, table, (long long)first);
    return rc ? rc : db_exec(&log->db, moving, err, "DELETE FROM %s WHERE step >= %lld", table,
                             (long long)first);
}

static int copy_row(struct runlog *log, sqlite3_stmt *row, sqlite3_stmt *put, struct err *err)
{
    for (int i = 0; i < sqlite3_column_count(row); i++)
        if (sqlite3_bind_value(put, i + 1, sqlite3_column_value(row, i)) != SQLITE_OK)
            return db_fail(&log->db, moving, err);
    int done = sqlite3_step(put) == SQLITE_DONE;

    sqlite3_reset(put);
    return done ? 0 : db_fail(&log->db, moving, err);
}

/* Copy the snapshot's rows of steps first ... to - 1. */
static int take_over(struct runlog *log, struct runlog *from, const char *table, uint64_t first,
                     uint64_t to, struct err *err)
{
    char         *get = sqlite3_mprintf("SELECT * FROM %s WHERE step >= %lld AND step < %lld",
                                        table, (long long)first, (long long)to), *put = NULL;
    sqlite3_stmt *row = NULL, *into = NULL;
    int           rc = get ? 0 : err_set(err, -ENOMEM, "out of memory"), got = SQLITE_ROW;

    if (!rc && sqlite3_prepare_v2(from->db.sql, get, -1, &row, NULL) != SQLITE_OK)
        rc = db_fail(&from->db, moving, err);
    for (int i = 0; !rc && i < sqlite3_column_count(row); i++) {
        char *more = sqlite3_mprintf(i ? "%z, ?" : "%zINSERT INTO %s VALUES (?", put, table);

        rc = more ? 0 : err_set(err, -ENOMEM, "out of memory");
        put = more;
    }
    if (!rc && (put = sqlite3_mprintf("%z)", put)) &&
        sqlite3_prepare_v2(log->db.sql, put, -1, &into, NULL) != SQLITE_OK)
        rc = db_fail(&log->db, moving, err);
    while (!rc && (got = sqlite3_step(row)) == SQLITE_ROW)
        rc = into ? copy_row(log, row, into, err) : err_set(err, -ENOMEM, "out of memory");
    if (!rc && got != SQLITE_DONE)
        rc = db_fail(&from->db, moving, err);
    sqlite3_finalize(row);
    sqlite3_finalize(into);
    sqlite3_free(get);
    sqlite3_free(put);
    return rc;
}

/* Remove the rows of earlier branches that are the run's own again, or those of branch n, and
 * branches that have no rows any more. */
static int forget_taken_up(struct runlog *log, uint64_t n, struct err *err)
{
    int rc = db_exec(&log->db, moving, err,
                     "DELETE FROM left_steps WHERE branch < %lld AND EXISTS (SELECT 1 FROM steps s"
                     " WHERE s.step = left_steps.step AND s.loss IS left_steps.loss AND s.lr IS"
                     " left_steps.lr AND s.grad_norm IS left_steps.grad_norm);"
                     "DELETE FROM left_steps WHERE branch < %lld AND EXISTS (SELECT 1 FROM"
                     " left_steps s WHERE s.branch = %lld AND s.step = left_steps.step AND"
                     " s.loss IS left_steps.loss AND s.lr IS left_steps.lr AND s.grad_norm IS"
                     " left_steps.grad_norm);"
                     "DELETE FROM branches WHERE branch < %lld AND NOT EXISTS (SELECT 1 FROM"
                     " left_steps WHERE left_steps.branch = branches.branch);"
                     "UPDATE branches SET first_step = coalesce((SELECT min(step) FROM left_steps"
                     " WHERE left_steps.branch = branches.branch), first_step)",
                     (long long)n, (long long)n, (long long)n, (long long)n);

    for (size_t i = 1; i < TABLES && !rc; i++)
        if (has_table(log, tables[i]))
            rc = db_exec(&log->db, moving, err, "DELETE FROM left_%s WHERE NOT EXISTS (SELECT 1"
                         " FROM branches WHERE branches.branch = left_%s.branch AND"
                         " branches.first_step <= left_%s.step)", tables[i], tables[i], tables[i]);
    return rc;
}

int branches_leave(struct branch *b, struct runlog *log, struct runlog *from, struct err *err)
{
    static const char *const measured[] = { "spans", "traffic", "whole" };
    int64_t           newest = 0, beyond = 0;
    char              ask[96];
    int rc = db_exec(&log->db, moving, err,
                     "CREATE TABLE IF NOT EXISTS branches (branch INTEGER PRIMARY KEY,"
                     " first_step INTEGER /* from 0: the first that the run left */,"
                     " steps INTEGER /* how many were done */,"
                     " to_step INTEGER /* the snapshot's */,"
                     " left TEXT /* the time */, options TEXT /* what the run went on with */)");

    rc = rc ? rc : find_fork(&b->first, log, from, b->to, err);
    if (rc)
        return rc;
    snprintf(ask, sizeof ask, "SELECT count(*) FROM steps WHERE step >= %" PRIu64, b->first);
    if (db_number(&log->db, ask, &beyond) ||
        db_number(&log->db, "SELECT coalesce(max(branch), 0) FROM branches", &newest))
        return db_fail(&log->db, moving, err);
    b->n = beyond ? (uint64_t)newest + 1 : 0;
    for (size_t i = 0; i < TABLES && !rc; i++)
        if (has_table(log, tables[i])) {
            rc = put_aside(log, tables[i], b->first, b->n, err);
            rc = rc ? rc : take_over(log, from, tables[i], b->first, b->to, err);
        }
    for (size_t i = 0; i < sizeof measured / sizeof *measured && !rc; i++)
        rc = db_exec(&log->db, moving, err, "DELETE FROM %s WHERE step >= %lld", measured[i],
                     (long long)b->first);
    if (!rc && b->n)
        rc = runlog_write(log, "INSERT INTO branches VALUES (?, ?, ?, ?,"
                          " strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), ?)", moving, err, "uuuut", b->n,
                          b->first, b->steps, b->to, b->options);
    return rc ? rc : forget_taken_up(log, b->n ? b->n : (uint64_t)newest + 1, err);
}

/* ---- while the run goes back ---- */

int branches_format(struct runlog *log, uint64_t *format, struct err *err)
{
    char    text[24];
    int64_t is = 0;
    int     rc = runlog_get(log, "going_back.format", text, sizeof text, err);

    *format = rc ? 0 : strtoull(text, NULL, 10);
    if (rc != -ENOENT)
        return rc;
    if (db_number(&log->db, "PRAGMA user_version", &is))
        return db_fail(&log->db, "reading its header", err);
    *format = (uint64_t)is;
    return 0;
}

int branches_begin(struct runlog *log, const char *to, const char *options, struct err *err)
{
    uint64_t format;
    int      rc = branches_format(log, &format, err);

    return rc ? rc : branches_begin_as(log, to, options, format, err);
}

int branches_begin_as(struct runlog *log, const char *to, const char *options, uint64_t format,
                      struct err *err)
{
    char text[24];
    int  rc = runlog_begin(log, err);

    if (rc)
        return rc;
    snprintf(text, sizeof text, "%" PRIu64, format);
    rc = runlog_set(log, "going_back", to, err);
    if (!rc && options)
        rc = *options ? runlog_set(log, "going_back.options", options, err)
                      : runlog_unset(log, "going_back.options", err);
    rc = rc ? rc : runlog_set(log, "going_back.format", text, err);
    rc = rc ? rc : db_exec(&log->db, "storing its format", err, "PRAGMA user_version=%d",
                           FORMAT_GOING_BACK);
    return runlog_end(log, rc, err);
}

int branches_end(struct runlog *log, struct err *err)
{
    char format[24];
    int  rc = runlog_get(log, "going_back.format", format, sizeof format, err);

    if (rc)
        return rc == -ENOENT ? 0 : rc;
    long was = strtol(format, NULL, 10);
    if (was <= 0 || was >= FORMAT_GOING_BACK)
        return err_set(err, -EBADMSG, "going_back.format in run.db is %s, which is none that a run "
                       "had before it went back", format);
    rc = db_exec(&log->db, "storing its format", err, "PRAGMA user_version=%ld", was);
    rc = rc ? rc : runlog_unset(log, "going_back.format", err);
    rc = rc ? rc : runlog_unset(log, "going_back.options", err);
    return rc ? rc : runlog_unset(log, "going_back", err);
}
