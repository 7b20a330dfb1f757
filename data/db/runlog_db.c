/* runlog_db.c: what SQLite is told, and what is said when it refuses: the schema of the measuring
 * tables, the statements, the connection, the head by which a database is known as a run's.
 *
 * A row is written by naming a statement and giving its values, so that tables and statements,
 * which must agree, stand together. A database may be a stranger's: nothing of its schema is
 * trusted (db_own_views, runlog_db_check_format). */
#include "data/db/runlog_db.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { RUN_ID = 0x73695472, RUN_VERSION = 2 }; // "siTr"
enum { VALUE_MAX_BYTES = 1 << 28 };            // of one value

/* Views. phase_seconds: time spent, summed, folded steps included. The others use the steps kept
 * whole, spans of which none is missing or summed (start_ns 0). phase_wall: the union of a phase's
 * spans, by device. breakdown: the paper's three bars as the training thread saw them: forward with
 * its waits for parameters; loss, backward and what it did and waited to hand gradients over; the
 * update as the time waited for it (in mode mem, where it runs on this thread, itself and its
 * commits). device_rate: bytes moved by the time in which at least one transfer of that kind was
 * under way; an update's reads and writes are timed as its parts. */
#define FROM_0  " /* from 0: the first step is step 0 here, and step 1 in every log and report */"
#define AFTER_0 " /* evaluated after this step, from 0: after the first step it is 0 */"
static const char schema[] =
    "CREATE TABLE runs (key TEXT PRIMARY KEY, value TEXT, crc INTEGER);CREATE TABLE notices (id "
    "INTEGER PRIMARY KEY, time TEXT, text TEXT);CREATE TABLE steps (step INTEGER PRIMARY KEY" FROM_0
    ",  tokens INTEGER, loss REAL, lr REAL, grad_norm REAL, clipped INTEGER,  skipped INTEGER, "
    "seconds REAL, peak_rss INTEGER, sum INTEGER);CREATE TABLE spans (step INTEGER" FROM_0
    ",  phase TEXT, block INTEGER, device INTEGER, start_ns INTEGER, end_ns INTEGER, bytes "
    "INTEGER);CREATE INDEX spans_step ON spans (step);CREATE TABLE traffic (step INTEGER" FROM_0
    ",  phase TEXT, link TEXT, device INTEGER, class TEXT, direction TEXT, bytes INTEGER,  "
    "padding_bytes INTEGER);CREATE INDEX traffic_step ON traffic (step);CREATE TABLE whole (step "
    "INTEGER PRIMARY KEY);CREATE TABLE evals (step INTEGER" AFTER_0
    ",  name TEXT, value REAL, sum INTEGER, PRIMARY KEY (step, name));CREATE TABLE devices (device "
    "INTEGER PRIMARY KEY, path TEXT, backend TEXT, disk TEXT, bytes INTEGER);CREATE VIEW "
    "phase_seconds AS SELECT step, phase, sum(end_ns - start_ns) / 1e9 AS seconds, sum(bytes) AS "
    "bytes  FROM spans GROUP BY step, phase;CREATE VIEW whole_spans AS SELECT * FROM spans WHERE "
    "step NOT IN (SELECT step FROM spans WHERE start_ns = 0);CREATE VIEW phase_wall AS SELECT "
    "step, phase, device, sum(max(0, end_ns - max(start_ns, coalesce(before, 0)))) / 1e9 AS "
    "seconds,    sum(bytes) AS bytes FROM (SELECT *, max(end_ns) OVER (PARTITION BY step, phase, "
    "device ORDER BY start_ns, end_ns      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS "
    "before FROM whole_spans)  GROUP BY step, phase, device;CREATE VIEW host_spans AS SELECT "
    "w.step, phase, (end_ns - start_ns) / 1e9 AS seconds, start_ns < loss_ns AS in_forward  FROM "
    "whole_spans w JOIN (SELECT step, min(start_ns) AS loss_ns FROM spans WHERE phase = 'loss' "
    "GROUP BY step) USING (step)  WHERE device = -1;CREATE VIEW breakdown AS SELECT step, seconds, "
    "fw, bw_grad, \"update\", max(0, seconds - fw - bw_grad - \"update\") AS other FROM (  SELECT "
    "s.step, s.seconds,    coalesce(sum(h.seconds) FILTER (WHERE phase = 'forward' OR (phase = "
    "'param_read' AND in_forward)), 0) AS fw,    coalesce(sum(h.seconds) FILTER (WHERE phase IN "
    "('loss', 'backward', 'grad_compress', 'grad_write')      OR (phase = 'param_read' AND NOT "
    "in_forward)), 0) AS bw_grad,    coalesce(sum(h.seconds) FILTER (WHERE phase = "
    "'optimizer_wait' OR (phase IN ('update', 'commit')      AND (SELECT value FROM runs WHERE key "
    "= 'option.mode') = 'mem')), 0) AS \"update\"  FROM steps s JOIN host_spans h USING (step) "
    "WHERE s.seconds > 0 GROUP BY s.step);CREATE VIEW device_rate AS SELECT device, link, "
    "direction, phase, sum(bytes) AS bytes, sum(seconds) AS busy_seconds,    sum(bytes) / "
    "sum(seconds) AS bytes_per_second FROM (SELECT step, device, link, direction,      iif(phase = "
    "'update', 'update_' || direction, phase) AS phase, sum(bytes) AS bytes FROM traffic WHERE "
    "device >= 0      GROUP BY step, device, link, direction, phase) JOIN (SELECT step, device, "
    "phase, seconds FROM phase_wall)    USING (step, device, phase) GROUP BY device, link, "
    "direction, phase HAVING sum(seconds) > 0;CREATE VIEW traffic_per_step AS SELECT step, link, "
    "class, direction, sum(bytes) AS bytes, sum(padding_bytes) AS padding_bytes  FROM traffic "
    "WHERE phase NOT IN ('redo', 'setup', 'eval') GROUP BY step, link, class, direction;";

static const char *const sql_texts[SQLS] = {
    [SQL_BEGIN] = "BEGIN IMMEDIATE",
    [SQL_COMMIT] = "COMMIT",
    [SQL_SET] = "INSERT OR REPLACE INTO runs VALUES (?, ?, ?)",
    [SQL_GET] = "SELECT value FROM runs WHERE key = ?",
    [SQL_NOTICE] = "INSERT INTO notices (time, text)"
                   " VALUES (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), ?)",
    [SQL_STEP] = "INSERT OR REPLACE INTO steps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [SQL_STEP_DONE] = "UPDATE steps SET seconds = ?, peak_rss = ? WHERE step = ?",
    [SQL_EVAL] = "INSERT OR REPLACE INTO evals VALUES (?, ?, ?, ?)",
    [SQL_DEVICE] = "INSERT OR REPLACE INTO devices VALUES (?, ?, ?, ?, ?)",
    [SQL_SPAN] = "INSERT INTO spans VALUES (?, ?, ?, ?, ?, ?, ?)",
    [SQL_TRAFFIC] = "INSERT INTO traffic VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    [SQL_SPANS_DELETE] = "DELETE FROM spans WHERE step = ?",
    [SQL_TRAFFIC_DELETE] = "DELETE FROM traffic WHERE step = ?",
    [SQL_WHOLE_ADD] = "INSERT OR IGNORE INTO whole VALUES (?)",
    [SQL_WHOLE_DELETE] = "DELETE FROM whole WHERE step = ?",
    [SQL_WHOLE_NEXT] = "SELECT step FROM whole WHERE step <= ? ORDER BY step LIMIT 1",
    [SQL_SPANS_LAST] = "SELECT coalesce(max(rowid), 0) FROM spans",
    [SQL_SPANS_FOLD] = "INSERT INTO spans SELECT step, phase, -1, -1, 0, sum(end_ns - start_ns), "
                       "sum(bytes) FROM spans WHERE step = ? GROUP BY phase",
    [SQL_SPANS_DROP] = "DELETE FROM spans WHERE step = ? AND rowid <= ?",
    [SQL_TRAFFIC_LAST] = "SELECT coalesce(max(rowid), 0) FROM traffic",
    [SQL_TRAFFIC_FOLD] = "INSERT INTO traffic SELECT step, phase, link, -1, class, direction, "
                         "sum(bytes), sum(padding_bytes) FROM traffic WHERE step = ? GROUP BY "
                         "phase, link, class, direction",
    [SQL_TRAFFIC_DROP] = "DELETE FROM traffic WHERE step = ? AND rowid <= ?",
};

/* ---- sentences ---- */

int runlog_fail(struct runlog *log, const char *doing, struct err *err)
{
    const char *p = log->path, *why = log->db ? sqlite3_errmsg(log->db) : "out of memory";
    int         code = log->db ? sqlite3_extended_errcode(log->db) : SQLITE_NOMEM;
    int         os = log->db ? sqlite3_system_errno(log->db) : 0;

    switch (code & 0xff) {
    case SQLITE_FULL:
        return err_set(err, -ENOSPC,
                       "%s: the disk is full (while %s); free some space and run it again; a run "
                       "that was made goes on with --resume",
                       p, doing);
    case SQLITE_CORRUPT:
        return err_set(err, -EBADMSG, "%s: the database is damaged (while %s: %s)", p, doing, why);
    case SQLITE_NOTADB:
        return err_misuse(err, "%s is not a SQLite database; expected the run.db of a siTrain run",
                          p);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return runlog_wait_fail(log, doing, err);
    case SQLITE_READONLY:
        return err_set(err, -EROFS, "%s cannot be written (while %s): %s", p, doing, why);
    case SQLITE_CANTOPEN:
        return err_set(err, os ? -os : -ENOENT, "%s cannot be opened (while %s): %s", p, doing,
                       os ? strerror(os) : why);
    case SQLITE_NOMEM:
        return err_set(err, -ENOMEM, "%s: out of memory (while %s)", p, doing);
    case SQLITE_IOERR:
        return err_set(err, os ? -os : -EIO, "%s: %s failed: %s%s%s", p, doing, why, os ? ": " : "",
                       os ? strerror(os) : "");
    default:
        return err_set(err, -EIO, "%s: %s failed: %s", p, doing, why);
    }
}

/* ---- statements ---- */

/* Prepare once, bind by letters: i int64, d double, t text. */
static int db_bind(struct runlog *log, enum runlog_sql id, const char *doing, struct err *err,
                   const char *types, va_list ap)
{
    sqlite3_stmt *st = log->stmt[id];
    int           rc = SQLITE_OK;

    if (!st) {
        rc = sqlite3_prepare_v3(log->db, sql_texts[id], -1, SQLITE_PREPARE_PERSISTENT, &st, NULL);
        if (rc)
            return runlog_fail(log, doing, err);
        log->stmt[id] = st;
    }
    for (int i = 1; *types && !rc; types++, i++) {
        if (*types == 'i')
            rc = sqlite3_bind_int64(st, i, va_arg(ap, sqlite3_int64));
        else if (*types == 'd')
            rc = sqlite3_bind_double(st, i, va_arg(ap, double));
        else
            rc = sqlite3_bind_text(st, i, va_arg(ap, const char *), -1, SQLITE_STATIC);
    }
    return rc ? runlog_fail(log, doing, err) : 0;
}

int runlog_db_run(struct runlog *log, enum runlog_sql id, const char *doing, struct err *err,
                  const char *types, ...)
{
    va_list ap;
    int     rc;

    va_start(ap, types);
    rc = db_bind(log, id, doing, err, types, ap);
    va_end(ap);
    if (!rc && sqlite3_step(log->stmt[id]) != SQLITE_DONE)
        rc = runlog_fail(log, doing, err);
    if (log->stmt[id])
        sqlite3_reset(log->stmt[id]);
    return rc;
}

int runlog_db_row(struct runlog *log, enum runlog_sql id, const char *doing, struct err *err,
                  const char *types, ...)
{
    va_list ap;
    int     rc, got;

    va_start(ap, types);
    rc = db_bind(log, id, doing, err, types, ap);
    va_end(ap);
    if (rc)
        return rc;
    got = sqlite3_step(log->stmt[id]);
    return got == SQLITE_ROW ? 1 : got == SQLITE_DONE ? 0 : runlog_fail(log, doing, err);
}

static int db_exec(struct runlog *log, const char *text, const char *doing, struct err *err)
{
    return sqlite3_exec(log->db, text, NULL, NULL, NULL) ? runlog_fail(log, doing, err) : 0;
}

/* ---- connecting ---- */

/* A path as a URI has it: what means something there, and whatever else is no plain letter, as %XX.
 */
static char *immutable_uri(const char *path)
{
    char *uri = malloc(3 * strlen(path) + 32), *at = uri;

    if (!uri)
        return NULL;
    at += sprintf(at, "file:");
    for (; *path; path++)
        if (isalnum((unsigned char)*path) || strchr("/._-~", *path))
            *at++ = *path;
        else
            at += sprintf(at, "%%%02X", (unsigned)(unsigned char)*path);
    sprintf(at, "?immutable=1");
    return uri;
}

static int has_log(const struct runlog *log)
{
    struct stat st;
    char       *wal = NULL;
    int there = asprintf(&wal, "%s-wal", log->path) >= 0 && stat(wal, &st) == 0 && st.st_size > 0;

    free(wal);
    return there;
}

/* run.db without its log, of which SQLite then knows nothing. */
static int db_open_alone(struct runlog *log)
{
    char *uri = immutable_uri(log->path);
    int   rc = SQLITE_NOMEM;

    sqlite3_close(log->db);
    log->db = NULL;
    if (uri)
        rc = sqlite3_open_v2(uri, &log->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
    free(uri);
    return rc;
}

/* With its log, but with an index of the log in this process's memory, since a file of it
 * (run.db-shm) cannot be made. SQLite does that for who has the database to himself, and takes it
 * for granted where there are no locks; run.lock stands in for them. */
static int db_open_apart(struct runlog *log)
{
    int rc;

    sqlite3_close(log->db);
    rc = sqlite3_open_v2(log->path, &log->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX,
                         "unix-none");
    if (rc)
        return rc;
    sqlite3_db_config(log->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    return sqlite3_exec(log->db, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA temp_store=MEMORY", NULL,
                        NULL, NULL);
}

/* Where nothing can be written: read-only media, another user's folder, a disk without a byte free.
 */
static int cannot_write(struct runlog *log, int rc)
{
    int os = sqlite3_system_errno(log->db);

    switch (rc & 0xff) {
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_FULL:
        return 1;
    case SQLITE_IOERR:
        return os == ENOSPC || os == EDQUOT || os == EFBIG;
    default:
        return 0;
    }
}

/* A stranger's database can be told to do more than ours: a trigger acts on every row, a view in a
 * table's place may go on for ever, a view of ours may have become another, a value may be
 * computed. So triggers and the file's views are switched off, and our views made for this
 * connection alone. */
static int db_own_views(struct runlog *log)
{
    static const char view[] = "CREATE VIEW ";
    int               rc = SQLITE_OK;

    sqlite3_db_config(log->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(log->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(log->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(log->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_limit(log->db, SQLITE_LIMIT_LENGTH, VALUE_MAX_BYTES);
    for (const char *at = schema; *at && !rc; at += strcspn(at, ";") + 1) {
        char *sql = NULL;

        if (strncmp(at, view, sizeof view - 1))
            continue;
        at += sizeof view - 1;
        if (asprintf(&sql, "CREATE TEMP VIEW %.*s", (int)strcspn(at, ";"), at) < 0)
            return SQLITE_NOMEM;
        rc = sqlite3_exec(log->db, sql, NULL, NULL, NULL);
        free(sql);
    }
    return rc;
}

static int db_probe(struct runlog *log)
{
    sqlite3_extended_result_codes(log->db, 1);
    return sqlite3_exec(log->db, "SELECT count(*) FROM sqlite_master", NULL, NULL, NULL);
}

/* A reader, too, is opened for writing where the file allows it: a read-only connection would leave
 * its -shm and -wal behind. query_only sees to it that it changes nothing. */
int runlog_db_connect(struct runlog *log, int read_only, struct err *err)
{
    int rc =
        sqlite3_open_v2(log->path, &log->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);

    if (!rc) {
        runlog_wait_install(log);
        rc = db_probe(log);
    }
    if (read_only && log->db && cannot_write(log, rc)) {
        rc = runlog_lock_reading(log, err);
        return rc ? rc : runlog_db_connect_apart(log, 0, err);
    }
    if (!rc)
        rc = db_own_views(log);
    if (!rc && read_only)
        rc = sqlite3_exec(log->db, "PRAGMA query_only=1", NULL, NULL, NULL);
    if (!rc && !read_only && sqlite3_db_readonly(log->db, "main"))
        return err_set(err, -EROFS,
                       "%s may not be written here: it is read-only, or another user's", log->path);
    return rc ? runlog_fail(log, "opening", err) : 0;
}

int runlog_db_connect_apart(struct runlog *log, int alone, struct err *err)
{
    int rc = alone || !has_log(log) ? db_open_alone(log) : db_open_apart(log);

    if (!rc)
        rc = db_probe(log);
    if (!rc)
        rc = db_own_views(log);
    return rc ? runlog_fail(log, "opening", err) : 0;
}

/* ---- its head and its tables ---- */

static int pragma_number(void *ctx, int n, char **values, char **names)
{
    (void)n, (void)names;
    *(long *)ctx = values[0] ? strtol(values[0], NULL, 10) : 0;
    return 0;
}

int runlog_db_check_format(struct runlog *log, struct err *err)
{
    static const char foreign_sql[] =
        "SELECT count(*) FROM pragma_table_list AS t, pragma_table_xinfo(t.name) AS c"
        " WHERE t.schema = 'main' AND (t.type = 'virtual' OR c.hidden > 0)";
    long id = 0, version = 0, foreign = 0;

    if (sqlite3_exec(log->db, "PRAGMA application_id", pragma_number, &id, NULL) ||
        sqlite3_exec(log->db, "PRAGMA user_version", pragma_number, &version, NULL))
        return runlog_fail(log, "reading its header", err);
    if (id != RUN_ID)
        return err_misuse(err, "%s is a SQLite database but not of a siTrain run", log->path);
    if (version != RUN_VERSION)
        return err_misuse(err, "%s has format %ld; this version of siTrain reads format %d",
                          log->path, version, RUN_VERSION);
    if (sqlite3_exec(log->db, foreign_sql, pragma_number, &foreign, NULL))
        return runlog_fail(log, "reading its tables", err);
    if (foreign)
        return err_set(err, -EBADMSG,
                       "%s: it has virtual tables or computed columns, which no siTrain run has",
                       log->path);
    return 0;
}

int runlog_db_has_sums(struct runlog *log, const char *table)
{
    return sqlite3_table_column_metadata(log->db, "main", table, "sum", NULL, NULL, NULL, NULL,
                                         NULL) == SQLITE_OK;
}

/* Runs that were made before steps and evaluations had a sum: their rows stay without. */
int runlog_db_add_sums(struct runlog *log, struct err *err)
{
    static const char *const tables[] = { "steps", "evals" };
    int                      rc = 0;

    for (size_t i = 0; i < 2 && !rc; i++) {
        char sql[64];

        if (runlog_db_has_sums(log, tables[i]))
            continue;
        snprintf(sql, sizeof sql, "ALTER TABLE %s ADD COLUMN sum INTEGER", tables[i]);
        rc = db_exec(log, sql, "adding a column of sums", err);
    }
    return rc;
}

int runlog_db_set_durable(struct runlog *log, int durable, struct err *err)
{
    const char *level = durable ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=OFF";
    int         rc = db_exec(log, "PRAGMA journal_mode=WAL", "switching to WAL", err);

    return rc ? rc : db_exec(log, level, "setting synchronous", err);
}

int runlog_db_create(struct runlog *log, int durable, struct err *err)
{
    char head[96];
    int  rc = runlog_db_connect(log, 0, err);

    snprintf(head, sizeof head, "PRAGMA application_id=%d; PRAGMA user_version=%d", RUN_ID,
             RUN_VERSION);
    if (!rc)
        rc = runlog_db_set_durable(log, durable, err);
    if (!rc)
        rc = db_exec(log, "BEGIN IMMEDIATE", "creating", err);
    if (!rc)
        rc = db_exec(log, head, "creating", err);
    if (!rc)
        rc = db_exec(log, schema, "creating", err);
    return rc ? rc : db_exec(log, "COMMIT", "creating", err);
}
