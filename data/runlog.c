/* runlog.c: the run's database: its connection, the schema of the measuring tables and their bounded size.
 *
 * The lock is a file of its own beside the database (run.lock, flock): SQLite locks run.db itself with fcntl, and a second descriptor on
 * run.db closed by us would drop those. flock goes with the process, so a killed run leaves nothing to clean up; the file stays, for
 * removing it would let two processes hold two different files of that name.
 *
 * Size: a step is stored whole when it comes, being the newest; `whole` lists the steps that will have to be folded once 100 newer ones
 * exist. So nothing is searched: each runlog_measure folds the one step (or, after a gap, the few) that fell out of the window.
 *
 * Invariants: statements are prepared once; every sentence names the file; the caller owns transactions. */
#include "data/runlog.h"

#include "data/crc32c.h"
#include "data/wal.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RUN_ID = 0x73695472, RUN_VERSION = 2 };       // "siTr"
enum { VALUE_MAX_BYTES = 1 << 28 };                  // of one value
enum { KEEP_FIRST = 100, KEEP_LAST = 100, KEEP_EVERY = 1000 };

const char *const runlog_phase_names[PHASES] = {
    [PHASE_SETUP] = "setup", [PHASE_FORWARD] = "forward", [PHASE_BACKWARD] = "backward", [PHASE_LOSS] = "loss",
    [PHASE_GRAD_COMPRESS] = "grad_compress", [PHASE_GRAD_WRITE] = "grad_write", [PHASE_UPDATE] = "update",
    [PHASE_UPDATE_READ] = "update_read", [PHASE_UPDATE_COMPUTE] = "update_compute", [PHASE_UPDATE_WRITE] = "update_write",
    [PHASE_PARAM_READ] = "param_read", [PHASE_ACT_WRITE] = "act_write", [PHASE_ACT_READ] = "act_read",
    [PHASE_OPTIMIZER_WAIT] = "optimizer_wait", [PHASE_DATA] = "data", [PHASE_COMMIT] = "commit", [PHASE_EVAL] = "eval",
    [PHASE_REDO] = "redo",
};

/* Views. phase_seconds: time spent, summed, folded steps included. The others use the steps kept whole, spans of which none is
 * missing or summed (start_ns 0). phase_wall: the union of a phase's spans, by device. breakdown: the paper's three bars as the training
 * thread saw them: forward with its waits for parameters; loss, backward and what it did and waited to hand gradients over; the update as
 * the time waited for it (in mode mem, where it runs on this thread, itself and its commits). device_rate: bytes moved by the time in
 * which at least one transfer of that kind was under way; an update's reads and writes are timed as its parts. */
static const char schema[] =
    "CREATE TABLE runs (key TEXT PRIMARY KEY, value TEXT, crc INTEGER);"
    "CREATE TABLE notices (id INTEGER PRIMARY KEY, time TEXT, text TEXT);"
    "CREATE TABLE steps (step INTEGER PRIMARY KEY, tokens INTEGER, loss REAL, lr REAL, grad_norm REAL, clipped INTEGER,"
    "  skipped INTEGER, seconds REAL, peak_rss INTEGER, sum INTEGER);"
    "CREATE TABLE spans (step INTEGER, phase TEXT, block INTEGER, device INTEGER, start_ns INTEGER, end_ns INTEGER, bytes INTEGER);"
    "CREATE INDEX spans_step ON spans (step);"
    "CREATE TABLE traffic (step INTEGER, phase TEXT, link TEXT, device INTEGER, class TEXT, direction TEXT, bytes INTEGER,"
    "  padding_bytes INTEGER);"
    "CREATE INDEX traffic_step ON traffic (step);"
    "CREATE TABLE whole (step INTEGER PRIMARY KEY);"
    "CREATE TABLE evals (step INTEGER, name TEXT, value REAL, sum INTEGER, PRIMARY KEY (step, name));"
    "CREATE TABLE devices (device INTEGER PRIMARY KEY, path TEXT, backend TEXT, disk TEXT, bytes INTEGER);"
    "CREATE VIEW phase_seconds AS SELECT step, phase, sum(end_ns - start_ns) / 1e9 AS seconds, sum(bytes) AS bytes"
    "  FROM spans GROUP BY step, phase;"
    "CREATE VIEW whole_spans AS SELECT * FROM spans WHERE step NOT IN (SELECT step FROM spans WHERE start_ns = 0);"
    "CREATE VIEW phase_wall AS SELECT step, phase, device, sum(max(0, end_ns - max(start_ns, coalesce(before, 0)))) / 1e9 AS seconds,"
    "    sum(bytes) AS bytes FROM (SELECT *, max(end_ns) OVER (PARTITION BY step, phase, device ORDER BY start_ns, end_ns"
    "      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM whole_spans)"
    "  GROUP BY step, phase, device;"
    "CREATE VIEW host_spans AS SELECT w.step, phase, (end_ns - start_ns) / 1e9 AS seconds, start_ns < loss_ns AS in_forward"
    "  FROM whole_spans w JOIN (SELECT step, min(start_ns) AS loss_ns FROM spans WHERE phase = 'loss' GROUP BY step) USING (step)"
    "  WHERE device = -1;"
    "CREATE VIEW breakdown AS SELECT step, seconds, fw, bw_grad, \"update\", max(0, seconds - fw - bw_grad - \"update\") AS other FROM ("
    "  SELECT s.step, s.seconds,"
    "    coalesce(sum(h.seconds) FILTER (WHERE phase = 'forward' OR (phase = 'param_read' AND in_forward)), 0) AS fw,"
    "    coalesce(sum(h.seconds) FILTER (WHERE phase IN ('loss', 'backward', 'grad_compress', 'grad_write')"
    "      OR (phase = 'param_read' AND NOT in_forward)), 0) AS bw_grad,"
    "    coalesce(sum(h.seconds) FILTER (WHERE phase = 'optimizer_wait' OR (phase IN ('update', 'commit')"
    "      AND (SELECT value FROM runs WHERE key = 'option.mode') = 'mem')), 0) AS \"update\""
    "  FROM steps s JOIN host_spans h USING (step) WHERE s.seconds > 0 GROUP BY s.step);"
    "CREATE VIEW device_rate AS SELECT device, link, direction, phase, sum(bytes) AS bytes, sum(seconds) AS busy_seconds,"
    "    sum(bytes) / sum(seconds) AS bytes_per_second FROM (SELECT step, device, link, direction,"
    "      iif(phase = 'update', 'update_' || direction, phase) AS phase, sum(bytes) AS bytes FROM traffic WHERE device >= 0"
    "      GROUP BY step, device, link, direction, phase) JOIN (SELECT step, device, phase, seconds FROM phase_wall)"
    "    USING (step, device, phase) GROUP BY device, link, direction, phase HAVING sum(seconds) > 0;"
    "CREATE VIEW traffic_per_step AS SELECT step, link, class, direction, sum(bytes) AS bytes, sum(padding_bytes) AS padding_bytes"
    "  FROM traffic WHERE phase NOT IN ('redo', 'setup', 'eval') GROUP BY step, link, class, direction;";

enum sql {
    SQL_BEGIN, SQL_COMMIT, SQL_SET, SQL_GET, SQL_NOTICE, SQL_STEP, SQL_STEP_DONE, SQL_EVAL, SQL_DEVICE,
    SQL_SPAN, SQL_TRAFFIC, SQL_SPANS_DELETE, SQL_TRAFFIC_DELETE, SQL_WHOLE_ADD, SQL_WHOLE_DELETE, SQL_WHOLE_NEXT,
    SQL_SPANS_LAST, SQL_SPANS_FOLD, SQL_SPANS_DROP, SQL_TRAFFIC_LAST, SQL_TRAFFIC_FOLD, SQL_TRAFFIC_DROP, SQLS
};

static const char *const sql_texts[SQLS] = {
    [SQL_BEGIN]          = "BEGIN IMMEDIATE",
    [SQL_COMMIT]         = "COMMIT",
    [SQL_SET]            = "INSERT OR REPLACE INTO runs VALUES (?, ?, ?)",
    [SQL_GET]            = "SELECT value FROM runs WHERE key = ?",
    [SQL_NOTICE]         = "INSERT INTO notices (time, text) VALUES (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), ?)",
    [SQL_STEP]           = "INSERT OR REPLACE INTO steps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [SQL_STEP_DONE]      = "UPDATE steps SET seconds = ?, peak_rss = ? WHERE step = ?",
    [SQL_EVAL]           = "INSERT OR REPLACE INTO evals VALUES (?, ?, ?, ?)",
    [SQL_DEVICE]         = "INSERT OR REPLACE INTO devices VALUES (?, ?, ?, ?, ?)",
    [SQL_SPAN]           = "INSERT INTO spans VALUES (?, ?, ?, ?, ?, ?, ?)",
    [SQL_TRAFFIC]        = "INSERT INTO traffic VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    [SQL_SPANS_DELETE]   = "DELETE FROM spans WHERE step = ?",
    [SQL_TRAFFIC_DELETE] = "DELETE FROM traffic WHERE step = ?",
    [SQL_WHOLE_ADD]      = "INSERT OR IGNORE INTO whole VALUES (?)",
    [SQL_WHOLE_DELETE]   = "DELETE FROM whole WHERE step = ?",
    [SQL_WHOLE_NEXT]     = "SELECT step FROM whole WHERE step <= ? ORDER BY step LIMIT 1",
    [SQL_SPANS_LAST]     = "SELECT coalesce(max(rowid), 0) FROM spans",
    [SQL_SPANS_FOLD]     = "INSERT INTO spans SELECT step, phase, -1, -1, 0, sum(end_ns - start_ns), sum(bytes) FROM spans"
                           " WHERE step = ? GROUP BY phase",
    [SQL_SPANS_DROP]     = "DELETE FROM spans WHERE step = ? AND rowid <= ?",
    [SQL_TRAFFIC_LAST]   = "SELECT coalesce(max(rowid), 0) FROM traffic",
    [SQL_TRAFFIC_FOLD]   = "INSERT INTO traffic SELECT step, phase, link, -1, class, direction, sum(bytes), sum(padding_bytes)"
                           " FROM traffic WHERE step = ? GROUP BY phase, link, class, direction",
    [SQL_TRAFFIC_DROP]   = "DELETE FROM traffic WHERE step = ? AND rowid <= ?",
};

struct runlog {
    sqlite3      *db;
    sqlite3_stmt *stmt[SQLS];
    int           lock_fd; // -1: not held
    int           writes;  // it is held against everybody
    char         *path;
};

/* ---- sentences ---- */

/* The sentence of SQLite's last error while `doing` something. */
static int db_fail(struct runlog *log, const char *doing, struct err *err)
{
    const char *p = log->path, *why = log->db ? sqlite3_errmsg(log->db) : "out of memory";
    int         code = log->db ? sqlite3_extended_errcode(log->db) : SQLITE_NOMEM;
    int         os = log->db ? sqlite3_system_errno(log->db) : 0;

    switch (code & 0xff) {
    case SQLITE_FULL:
        return err_set(err, -ENOSPC, "%s: the disk is full (while %s); free some space and run it again; a run that was made "
                       "goes on with --resume", p, doing);
    case SQLITE_CORRUPT:
        return err_set(err, -EBADMSG, "%s: the database is damaged (while %s: %s)", p, doing, why);
    case SQLITE_NOTADB:
        return err_misuse(err, "%s is not a SQLite database; expected the run.db of a siTrain run", p);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return err_set(err, -EBUSY, "%s is locked by another program (while %s); close it and try again", p, doing);
    case SQLITE_READONLY:
        return err_set(err, -EROFS, "%s cannot be written (while %s): %s", p, doing, why);
    case SQLITE_CANTOPEN:
        return err_set(err, os ? -os : -ENOENT, "%s cannot be opened (while %s): %s", p, doing, os ? strerror(os) : why);
    case SQLITE_NOMEM:
        return err_set(err, -ENOMEM, "%s: out of memory (while %s)", p, doing);
    case SQLITE_IOERR:
        return err_set(err, os ? -os : -EIO, "%s: %s failed: %s%s%s", p, doing, why, os ? ": " : "", os ? strerror(os) : "");
    default:
        return err_set(err, -EIO, "%s: %s failed: %s", p, doing, why);
    }
}

/* ---- statements ---- */

/* Prepare once, bind by letters: i int64, d double, t text. */
static int sql_bind(struct runlog *log, enum sql id, const char *doing, struct err *err, const char *types, va_list ap)
{
    sqlite3_stmt *st = log->stmt[id];
    int           rc = SQLITE_OK;

    if (!st) {
        rc = sqlite3_prepare_v3(log->db, sql_texts[id], -1, SQLITE_PREPARE_PERSISTENT, &st, NULL);
        if (rc)
            return db_fail(log, doing, err);
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
    return rc ? db_fail(log, doing, err) : 0;
}

/* Run a statement that gives no rows. */
static int sql_run(struct runlog *log, enum sql id, const char *doing, struct err *err, const char *types, ...)
{
    va_list ap;
    int     rc;

    va_start(ap, types);
    rc = sql_bind(log, id, doing, err, types, ap);
    va_end(ap);
    if (!rc && sqlite3_step(log->stmt[id]) != SQLITE_DONE)
        rc = db_fail(log, doing, err);
    if (log->stmt[id])
        sqlite3_reset(log->stmt[id]);
    return rc;
}

/* Step to the first row: 1, or 0 if there is none. The caller resets the statement when it has read the row. */
static int sql_row(struct runlog *log, enum sql id, const char *doing, struct err *err, const char *types, ...)
{
    va_list ap;
    int     rc, got;

    va_start(ap, types);
    rc = sql_bind(log, id, doing, err, types, ap);
    va_end(ap);
    if (rc)
        return rc;
    got = sqlite3_step(log->stmt[id]);
    return got == SQLITE_ROW ? 1 : got == SQLITE_DONE ? 0 : db_fail(log, doing, err);
}

static int db_exec(struct runlog *log, const char *text, const char *doing, struct err *err)
{
    return sqlite3_exec(log->db, text, NULL, NULL, NULL) ? db_fail(log, doing, err) : 0;
}

/* ---- the lock ---- */

/* Who holds it, as written there; "" where that is not known: one that only reads writes nothing, and one that was killed did not take
 * its words back. */
static void lock_holder(int fd, char *text, size_t size)
{
    char    host[64] = "", here[64] = "";
    long    pid;
    ssize_t n = pread(fd, text, size - 1, 0);

    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\0'))
        n--;
    text[n > 0 ? n : 0] = '\0';
    gethostname(here, sizeof here - 1);
    if (sscanf(text, "process %ld on %63s", &pid, host) == 2 && !strcmp(host, here) && kill((pid_t)pid, 0) && errno == ESRCH)
        *text = '\0';
}

static int lock_refuse(const char *path, const char *lock_path, int fd, struct err *err)
{
    char holder[128] = "";

    switch (errno) {
    case EWOULDBLOCK:
        lock_holder(fd, holder, sizeof holder);
        return err_set(err, -EBUSY, "%s: the run is in use by %s; wait for it to end or stop it", path, *holder ? holder : "another process");
    case ENOLCK:
    case ENOSYS:
    case EOPNOTSUPP:
        return err_set(err, -ENOLCK, "lock %s: %s: the file system has no locks, so a second process could not be kept from this run; put it on a "
                       "local one", lock_path, strerror(errno));
    default:
        return err_set(err, -errno, "lock %s: %s", lock_path, strerror(errno));
    }
}

static char *lock_path_of(const struct runlog *log)
{
    const char *slash = strrchr(log->path, '/');
    int         dir_len = slash ? (int)(slash - log->path) + 1 : 0;
    char       *path;

    return asprintf(&path, "%.*srun.lock", dir_len, log->path) < 0 ? NULL : path;
}

static int lock_take(struct runlog *log, struct err *err)
{
    char *path = lock_path_of(log), host[64] = "", text[128];
    int   rc = 0, n;

    if (!path)
        return err_set(err, -ENOMEM, "%s: out of memory", log->path);
    log->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (log->lock_fd < 0) {
        rc = err_set(err, -errno, "open %s: %s", path, strerror(errno));
        goto out;
    }
    if (flock(log->lock_fd, LOCK_EX | LOCK_NB)) {
        rc = lock_refuse(log->path, path, log->lock_fd, err);
        close(log->lock_fd);
        log->lock_fd = -1;
        goto out;
    }
    log->writes = 1;
    gethostname(host, sizeof host - 1);
    n = snprintf(text, sizeof text, "process %ld on %s\n", (long)getpid(), host);
    if (ftruncate(log->lock_fd, 0) || pwrite(log->lock_fd, text, (size_t)n, 0) != n)
        rc = err_set(err, errno ? -errno : -EIO, "write %s: %s", path, strerror(errno));
out:
    free(path);
    return rc;
}

int runlog_lock_reading(struct runlog *log, struct err *err)
{
    char *path = lock_path_of(log);
    int   fd, rc = 0;

    if (!path)
        return err_set(err, -ENOMEM, "%s: out of memory", log->path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK)
        rc = lock_refuse(log->path, path, fd, err);
    if (rc)
        close(fd);
    else
        log->lock_fd = fd;
    free(path);
    return rc;
}

/* Does somebody write? */
static int lock_is_taken(struct runlog *log)
{
    char *path = lock_path_of(log);
    int   fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1, taken = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;

    if (fd >= 0)
        close(fd);
    free(path);
    return taken;
}

/* ---- open and close ---- */

/* A path as a URI has it: what means something there, and whatever else is no plain letter, as %XX. */
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
    char *wal = NULL;
    int   there = asprintf(&wal, "%s-wal", log->path) >= 0 && access(wal, F_OK) == 0;

    free(wal);
    return there;
}

/* On read-only media a WAL database without a WAL can only be read as immutable. */
static int db_open_immutable(struct runlog *log)
{
    char *uri = NULL;
    int   rc = SQLITE_CANTOPEN;

    if (!has_log(log) && (uri = immutable_uri(log->path))) {
        sqlite3_close(log->db);
        rc = sqlite3_open_v2(uri, &log->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
    }
    free(uri);
    return rc;
}

/* A stranger's database can be told to do more than ours: a trigger acts on every row, a view in a table's place may go on for ever, a
 * view of ours may have become another, a value may be computed. So triggers and the file's views are switched off, and our views made
 * for this connection alone. */
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

/* A reader, too, is opened for writing where the file allows it: a read-only connection would leave its -shm and -wal behind.
 * query_only sees to it that it changes nothing. */
static int db_connect(struct runlog *log, int read_only, struct err *err)
{
    const char *probe = "SELECT count(*) FROM sqlite_master";
    int         rc = sqlite3_open_v2(log->path, &log->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);

    if (!rc) {
        sqlite3_extended_result_codes(log->db, 1);
        sqlite3_busy_timeout(log->db, 5000);
        rc = sqlite3_exec(log->db, probe, NULL, NULL, NULL);
    }
    if (read_only && ((rc & 0xff) == SQLITE_CANTOPEN || (rc & 0xff) == SQLITE_READONLY) && !db_open_immutable(log))
        rc = sqlite3_exec(log->db, probe, NULL, NULL, NULL);
    if (!rc)
        rc = db_own_views(log);
    if (read_only && (rc & 0xff) == SQLITE_CANTOPEN && has_log(log))
        return err_set(err, -EROFS, "%s was not closed, and what its log (%s-wal) holds cannot be read where nothing may be written; "
                       "siTrain check where it may takes it in", log->path, log->path);
    if (!rc && read_only)
        rc = sqlite3_exec(log->db, "PRAGMA query_only=1", NULL, NULL, NULL);
    if (!rc && !read_only && sqlite3_db_readonly(log->db, "main"))
        return err_set(err, -EROFS, "%s may not be written here: it is read-only, or another user's", log->path);
    return rc ? db_fail(log, "opening", err) : 0;
}

static int pragma_number(void *ctx, int n, char **values, char **names)
{
    (void)n, (void)names;
    *(long *)ctx = values[0] ? strtol(values[0], NULL, 10) : 0;
    return 0;
}

static int db_check_run(struct runlog *log, struct err *err)
{
    static const char foreign_sql[] = "SELECT count(*) FROM pragma_table_list AS t, pragma_table_xinfo(t.name) AS c"
                                      " WHERE t.schema = 'main' AND (t.type = 'virtual' OR c.hidden > 0)";
    long id = 0, version = 0, foreign = 0;

    if (sqlite3_exec(log->db, "PRAGMA application_id", pragma_number, &id, NULL) ||
        sqlite3_exec(log->db, "PRAGMA user_version", pragma_number, &version, NULL))
        return db_fail(log, "reading its header", err);
    if (id != RUN_ID)
        return err_misuse(err, "%s is a SQLite database but not of a siTrain run", log->path);
    if (version != RUN_VERSION)
        return err_misuse(err, "%s has format %ld; this version of siTrain reads format %d", log->path, version, RUN_VERSION);
    if (sqlite3_exec(log->db, foreign_sql, pragma_number, &foreign, NULL))
        return db_fail(log, "reading its tables", err);
    if (foreign)
        return err_set(err, -EBADMSG, "%s: it has virtual tables or computed columns, which no siTrain run has", log->path);
    return 0;
}

static uint32_t setting_crc(const char *key, const char *value)
{
    return crc32c(crc32c(0, key, strlen(key) + 1), value, strlen(value));
}

/* A setting with a flipped bit, or one that a damaged index hides, would make this another run: each has its checksum, and SQLite looks
 * whether the table and its index agree. The table is small, however long the run. */
static int db_check_settings(struct runlog *log, struct err *err)
{
    sqlite3_stmt *st = NULL;
    int           rc = 0, got;

    if (sqlite3_prepare_v2(log->db, "PRAGMA integrity_check('runs')", -1, &st, NULL) || sqlite3_step(st) != SQLITE_ROW)
        rc = db_fail(log, "checking the settings", err);
    else if (strcmp((const char *)sqlite3_column_text(st, 0), "ok"))
        rc = err_set(err, -EBADMSG, "%s: the table of settings (runs) is damaged", log->path);
    sqlite3_finalize(st);
    if (rc)
        return rc;
    if (sqlite3_prepare_v2(log->db, "SELECT key, value, crc FROM runs", -1, &st, NULL))
        return db_fail(log, "reading the settings", err);
    while (!rc && (got = sqlite3_step(st)) == SQLITE_ROW) {
        const char *key = (const char *)sqlite3_column_text(st, 0), *value = (const char *)sqlite3_column_text(st, 1);

        if (!key || !value || sqlite3_column_int64(st, 2) != setting_crc(key, value))
            rc = err_set(err, -EBADMSG, "%s: the setting %s is damaged (checksum differs)", log->path, key ? key : "of a row");
    }
    if (!rc && got != SQLITE_DONE)
        rc = db_fail(log, "reading the settings", err);
    sqlite3_finalize(st);
    return rc;
}

/* Runs that were made before steps and evaluations had a sum: their rows stay without. */
static int db_add_sums(struct runlog *log, struct err *err)
{
    static const char *const tables[] = { "steps", "evals" };
    int                      rc = 0;

    for (size_t i = 0; i < 2 && !rc; i++) {
        char sql[64];

        if (sqlite3_table_column_metadata(log->db, "main", tables[i], "sum", NULL, NULL, NULL, NULL, NULL) == SQLITE_OK)
            continue;
        snprintf(sql, sizeof sql, "ALTER TABLE %s ADD COLUMN sum INTEGER", tables[i]);
        rc = db_exec(log, sql, "adding a column of sums", err);
    }
    return rc;
}

static int db_set_durable(struct runlog *log, int durable, struct err *err)
{
    int rc = db_exec(log, "PRAGMA journal_mode=WAL", "switching to WAL", err);

    return rc ? rc : db_exec(log, durable ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=OFF", "setting synchronous", err);
}

static struct runlog *log_new(const char *path)
{
    struct runlog *log = calloc(1, sizeof *log);

    if (!log)
        return NULL;
    log->lock_fd = -1;
    log->path = strdup(path);
    if (log->path)
        return log;
    free(log);
    return NULL;
}

static void log_unlink(const char *path)
{
    const char *const tails[] = { "", "-wal", "-shm" };
    char             *p;

    for (size_t i = 0; i < 3; i++)
        if (asprintf(&p, "%s%s", path, tails[i]) >= 0) {
            unlink(p);
            free(p);
        }
}

static int db_create(struct runlog *log, int durable, struct err *err)
{
    char head[96];
    int  rc = db_connect(log, 0, err);

    snprintf(head, sizeof head, "PRAGMA application_id=%d; PRAGMA user_version=%d", RUN_ID, RUN_VERSION);
    if (!rc)
        rc = db_set_durable(log, durable, err);
    if (!rc)
        rc = db_exec(log, "BEGIN IMMEDIATE", "creating", err);
    if (!rc)
        rc = db_exec(log, head, "creating", err);
    if (!rc)
        rc = db_exec(log, schema, "creating", err);
    return rc ? rc : db_exec(log, "COMMIT", "creating", err);
}

int runlog_create(struct runlog **out, const char *path, int durable, struct err *err)
{
    struct runlog *log = log_new(path);
    int            rc, fd;

    *out = NULL;
    if (!log)
        return err_set(err, -ENOMEM, "%s: out of memory", path);
    rc = lock_take(log, err);
    if (rc)
        goto out;
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); // SQLite opens an empty file as an empty database
    if (fd < 0) {
        rc = err_set(err, -errno, "create %s: %s", path, strerror(errno));
        goto out;
    }
    close(fd);
    rc = db_create(log, durable, err);
    if (rc) {
        sqlite3_close(log->db);
        log->db = NULL;
        log_unlink(path);
    }
out:
    if (rc)
        runlog_close(log);
    else
        *out = log;
    return rc;
}

int runlog_open(struct runlog **out, const char *path, int read_only, int durable, struct err *err)
{
    struct runlog *log;
    struct stat    st;
    int            rc;

    *out = NULL;
    if (stat(path, &st))
        return err_set(err, -errno, "%s: %s", path, errno == ENOENT ? "no such file; expected a run's database" : strerror(errno));
    if (!S_ISREG(st.st_mode) || !st.st_size)
        return err_misuse(err, "%s is not a SQLite database; expected the run.db of a siTrain run", path);
    log = log_new(path);
    if (!log)
        return err_set(err, -ENOMEM, "%s: out of memory", path);
    rc = read_only ? 0 : lock_take(log, err);
    if (!rc && (!read_only || !lock_is_taken(log)))
        rc = wal_check(path, err);
    if (!rc)
        rc = db_connect(log, read_only, err);
    if (!rc)
        rc = db_check_run(log, err);
    if (!rc)
        rc = db_check_settings(log, err);
    if (!rc && !read_only)
        rc = db_set_durable(log, durable, err);
    if (!rc && !read_only)
        rc = db_add_sums(log, err);
    if (rc)
        runlog_close(log);
    else
        *out = log;
    return rc;
}

void runlog_close(struct runlog *log)
{
    if (!log)
        return;
    runlog_rollback(log);
    for (int i = 0; i < SQLS; i++)
        sqlite3_finalize(log->stmt[i]);
    if (log->db && log->writes)
        sqlite3_wal_checkpoint_v2(log->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL); // best effort: the WAL is as durable
    sqlite3_close_v2(log->db);
    if (log->writes)
        (void)!ftruncate(log->lock_fd, 0); // only a sentence depends on it
    if (log->lock_fd >= 0)
        close(log->lock_fd);
    free(log->path);
    free(log);
}

struct sqlite3 *runlog_db(struct runlog *log)
{
    return log->db;
}

/* ---- transactions ---- */

int runlog_begin(struct runlog *log, struct err *err)
{
    int moved = 0;

    if (sqlite3_file_control(log->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved)
        return err_set(err, -ENOENT, "%s was removed or renamed while the run used it; bring it back and go on with --resume", log->path);
    return sql_run(log, SQL_BEGIN, "beginning a transaction", err, "");
}

int runlog_commit(struct runlog *log, struct err *err)
{
    return sql_run(log, SQL_COMMIT, "committing", err, "");
}

void runlog_rollback(struct runlog *log)
{
    if (log->db && !sqlite3_get_autocommit(log->db))
        sqlite3_exec(log->db, "ROLLBACK", NULL, NULL, NULL);
}

/* ---- rows ---- */

/* A number as SQLite gives it back: any NaN is NULL, and zero has no sign. */
static uint64_t real_bits(double x)
{
    uint64_t bits;

    x += 0.0;
    memcpy(&bits, &x, sizeof bits);
    return x == x ? bits : UINT64_MAX;
}

/* What a step computed; seconds and peak_rss, which are known later and differ each time, are left out. */
static uint32_t step_sum(const struct runlog_step *s)
{
    uint64_t row[] = { s->step, s->tokens, real_bits(s->loss), real_bits(s->lr), real_bits(s->grad_norm), (uint64_t)s->clipped,
                       (uint64_t)s->skipped };

    return crc32c(0, row, sizeof row);
}

static uint32_t eval_sum(uint64_t step, const char *name, double value)
{
    uint64_t row[] = { step, real_bits(value) };

    return crc32c(crc32c(0, row, sizeof row), name, strlen(name));
}

int runlog_set(struct runlog *log, const char *key, const char *value, struct err *err)
{
    return sql_run(log, SQL_SET, "writing a setting", err, "tti", key, value, (sqlite3_int64)setting_crc(key, value));
}

int runlog_get(struct runlog *log, const char *key, char *buf, size_t size, struct err *err)
{
    int         rc = sql_row(log, SQL_GET, "reading a setting", err, "t", key);
    const char *text = rc > 0 ? (const char *)sqlite3_column_text(log->stmt[SQL_GET], 0) : NULL;

    if (rc >= 0)
        rc = text ? 0 : -ENOENT;
    if (!rc && (size_t)snprintf(buf, size, "%s", text) >= size)
        rc = err_set(err, -E2BIG, "%s: the setting %s has %zu bytes; at most %zu were expected", log->path, key, strlen(text), size - 1);
    if (log->stmt[SQL_GET])
        sqlite3_reset(log->stmt[SQL_GET]);
    return rc;
}

int runlog_notice(struct runlog *log, const char *text, struct err *err)
{
    return sql_run(log, SQL_NOTICE, "writing a notice", err, "t", text);
}

int runlog_step(struct runlog *log, const struct runlog_step *s, struct err *err)
{
    return sql_run(log, SQL_STEP, "writing a step's row", err, "iidddiidii", (sqlite3_int64)s->step, (sqlite3_int64)s->tokens, s->loss,
                   s->lr, s->grad_norm, (sqlite3_int64)s->clipped, (sqlite3_int64)s->skipped, s->seconds, (sqlite3_int64)s->peak_rss,
                   (sqlite3_int64)step_sum(s));
}

int runlog_step_done(struct runlog *log, uint64_t step, double seconds, uint64_t peak_rss, struct err *err)
{
    return sql_run(log, SQL_STEP_DONE, "writing a step's row", err, "dii", seconds, (sqlite3_int64)peak_rss, (sqlite3_int64)step);
}

int runlog_eval(struct runlog *log, uint64_t step, const char *name, double value, struct err *err)
{
    return sql_run(log, SQL_EVAL, "writing an evaluation", err, "itdi", (sqlite3_int64)step, name, value,
                   (sqlite3_int64)eval_sum(step, name, value));
}

int runlog_device(struct runlog *log, int device, const char *path, const char *backend, const char *disk, uint64_t bytes, struct err *err)
{
    return sql_run(log, SQL_DEVICE, "writing a device", err, "ittti", (sqlite3_int64)device, path, backend, disk, (sqlite3_int64)bytes);
}

/* ---- measurements ---- */

/* Folded rows are appended, then the step's rows that were there before are dropped: theirs are the rowids up to `last`. */
static int fold_step(struct runlog *log, sqlite3_int64 step, struct err *err)
{
    static const enum sql of[2][3] = { { SQL_SPANS_LAST, SQL_SPANS_FOLD, SQL_SPANS_DROP },
                                       { SQL_TRAFFIC_LAST, SQL_TRAFFIC_FOLD, SQL_TRAFFIC_DROP } };
    const char *doing = "folding an old step";

    for (int t = 0; t < 2; t++) {
        sqlite3_int64 last = 0;
        int           rc = sql_row(log, of[t][0], doing, err, "");

        if (rc > 0)
            last = sqlite3_column_int64(log->stmt[of[t][0]], 0);
        sqlite3_reset(log->stmt[of[t][0]]);
        if (rc >= 0)
            rc = sql_run(log, of[t][1], doing, err, "i", step);
        if (!rc)
            rc = sql_run(log, of[t][2], doing, err, "ii", step, last);
        if (rc)
            return rc;
    }
    return sql_run(log, SQL_WHOLE_DELETE, doing, err, "i", step);
}

static int fold_old(struct runlog *log, uint64_t newest, struct err *err)
{
    sqlite3_int64 step = 0, until = (sqlite3_int64)newest - KEEP_LAST;
    int           rc;

    while ((rc = sql_row(log, SQL_WHOLE_NEXT, "folding an old step", err, "i", until)) > 0) {
        step = sqlite3_column_int64(log->stmt[SQL_WHOLE_NEXT], 0);
        sqlite3_reset(log->stmt[SQL_WHOLE_NEXT]);
        rc = fold_step(log, step, err);
        if (rc)
            return rc;
    }
    sqlite3_reset(log->stmt[SQL_WHOLE_NEXT]);
    return rc;
}

int runlog_measure(struct runlog *log, uint64_t step, const struct runlog_span *spans, size_t n_spans,
                   const struct runlog_traffic *traffic, size_t n_traffic, struct err *err)
{
    const char   *doing = "writing a step's measurements";
    sqlite3_int64 at = (sqlite3_int64)step;
    int           rc = sql_run(log, SQL_SPANS_DELETE, doing, err, "i", at);

    if (!rc)
        rc = sql_run(log, SQL_TRAFFIC_DELETE, doing, err, "i", at);
    for (size_t i = 0; i < n_spans && !rc; i++) {
        const struct runlog_span *s = &spans[i];

        rc = sql_run(log, SQL_SPAN, doing, err, "itiiiii", at, runlog_phase_names[s->phase], (sqlite3_int64)s->block,
                     (sqlite3_int64)s->device, (sqlite3_int64)s->start_ns, (sqlite3_int64)s->end_ns, (sqlite3_int64)s->bytes);
    }
    for (size_t i = 0; i < n_traffic && !rc; i++) {
        const struct runlog_traffic *t = &traffic[i];

        rc = sql_run(log, SQL_TRAFFIC, doing, err, "ittittii", at, runlog_phase_names[t->phase], t->link, (sqlite3_int64)t->device,
                     t->cls, t->dir, (sqlite3_int64)t->bytes, (sqlite3_int64)t->padding_bytes);
    }
    if (!rc && step >= KEEP_FIRST && step % KEEP_EVERY)
        rc = sql_run(log, SQL_WHOLE_ADD, doing, err, "i", at);
    return rc ? rc : fold_old(log, step, err);
}

/* ---- reports ---- */

int runlog_query(struct runlog *log, const char *sql, int (*row)(void *ctx, int n, const char **values, const char **names), void *ctx,
                 struct err *err)
{
    enum { COLUMNS = 64 };
    const char   *values[COLUMNS], *names[COLUMNS];
    sqlite3_stmt *st = NULL;
    int           n, got, rc = 0;

    if (sqlite3_prepare_v2(log->db, sql, -1, &st, NULL))
        return db_fail(log, "a query", err);
    n = sqlite3_column_count(st);
    assert(sqlite3_stmt_readonly(st) && n <= COLUMNS);
    while (!rc && (got = sqlite3_step(st)) != SQLITE_DONE) {
        if (got != SQLITE_ROW) {
            rc = db_fail(log, "a query", err);
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

/* ---- checking ---- */

struct checking { struct runlog *log; struct runlog_check *out; void (*say)(void *ctx, const char *sentence); void *ctx; int mend; };

static void say_damage(struct checking *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say_damage(struct checking *c, const char *fmt, ...)
{
    char    text[sizeof((struct err *)0)->text];
    va_list ap;
    int     n = snprintf(text, sizeof text, "%.800s: ", c->log->path);

    va_start(ap, fmt);
    vsnprintf(text + n, sizeof text - (size_t)n, fmt, ap);
    va_end(ap);
    c->out->damaged++;
    c->say(c->ctx, text);
}

/* Each row of a query to row(); an error of SQLite's is one more damage. Whether it came to the end. */
static int check_rows(struct checking *c, const char *sql, void (*row)(struct checking *c, sqlite3_stmt *st))
{
    sqlite3_stmt *st = NULL;
    int           got = sqlite3_prepare_v2(c->log->db, sql, -1, &st, NULL);

    while (got == SQLITE_OK || got == SQLITE_ROW)
        if ((got = sqlite3_step(st)) == SQLITE_ROW)
            row(c, st);
    if (got != SQLITE_DONE)
        say_damage(c, "%s", sqlite3_errmsg(c->log->db));
    sqlite3_finalize(st);
    return got == SQLITE_DONE;
}

static void integrity_row(struct checking *c, sqlite3_stmt *st)
{
    const char *text = (const char *)sqlite3_column_text(st, 0);

    if (strcmp(text, "ok"))
        say_damage(c, "%s", text);
}

static void setting_row(struct checking *c, sqlite3_stmt *st)
{
    (void)st;
    c->out->settings++;
}

static double column_real(sqlite3_stmt *st, int i)
{
    return sqlite3_column_type(st, i) == SQLITE_NULL ? (double)NAN : sqlite3_column_double(st, i);
}

int runlog_step_forget(struct runlog *log, uint64_t step, struct err *err)
{
    const struct runlog_step none = { .step = step, .loss = (double)NAN, .lr = (double)NAN, .grad_norm = (double)NAN };

    return runlog_step(log, &none, err);
}

/* The rows of steps [from, end). */
static void steps_forget(struct checking *c, uint64_t from, uint64_t end)
{
    int rc = !c->mend;

    for (; from < end && !rc; from++)
        rc = runlog_step_forget(c->log, from, NULL);
    c->out->mended += !rc;
}

static void eval_forget(struct checking *c, sqlite3_stmt *st)
{
    sqlite3_stmt *drop = NULL;

    if (!c->mend || sqlite3_prepare_v2(c->log->db, "DELETE FROM evals WHERE step = ? AND name IS ?", -1, &drop, NULL))
        return;
    sqlite3_bind_int64(drop, 1, sqlite3_column_int64(st, 0));
    sqlite3_bind_value(drop, 2, sqlite3_column_value(st, 1));
    c->out->mended += sqlite3_step(drop) == SQLITE_DONE;
    sqlite3_finalize(drop);
}

/* Rows come by step, each once: it is the key. */
static void step_row(struct checking *c, sqlite3_stmt *st)
{
    struct runlog_step s = { .step = (uint64_t)sqlite3_column_int64(st, 0), .tokens = (uint64_t)sqlite3_column_int64(st, 1),
                             .loss = column_real(st, 2), .lr = column_real(st, 3), .grad_norm = column_real(st, 4),
                             .clipped = sqlite3_column_int(st, 5), .skipped = sqlite3_column_int(st, 6) };

    if (s.step != c->out->steps) {
        say_damage(c, "table steps: after %llu rows, step %llu should come, but %llu does", (unsigned long long)c->out->steps,
                   (unsigned long long)c->out->steps, (unsigned long long)s.step);
        steps_forget(c, c->out->steps, s.step);
    }
    if (sqlite3_column_type(st, 7) != SQLITE_NULL &&
        (sqlite3_column_int64(st, 7) != step_sum(&s) || sqlite3_column_int64(st, 5) != s.clipped || sqlite3_column_int64(st, 6) != s.skipped)) {
        say_damage(c, "table steps: the row of step %llu is damaged (checksum differs)", (unsigned long long)s.step);
        steps_forget(c, s.step, s.step + 1);
    }
    c->out->steps = s.step + 1;
}

/* All rows of steps; whether they could be read. A database of before has no sums. */
static int check_steps(struct checking *c)
{
    int sums = sqlite3_table_column_metadata(c->log->db, "main", "steps", "sum", NULL, NULL, NULL, NULL, NULL) == SQLITE_OK;

    return check_rows(c, sums ? "SELECT step, tokens, loss, lr, grad_norm, clipped, skipped, sum FROM steps ORDER BY step"
                              : "SELECT step, tokens, loss, lr, grad_norm, clipped, skipped, NULL FROM steps ORDER BY step", step_row);
}

static void eval_row(struct checking *c, sqlite3_stmt *st)
{
    const char *name = (const char *)sqlite3_column_text(st, 1);
    uint64_t    step = (uint64_t)sqlite3_column_int64(st, 0);

    if (!name || (sqlite3_column_type(st, 3) != SQLITE_NULL && sqlite3_column_int64(st, 3) != eval_sum(step, name, column_real(st, 2)))) {
        say_damage(c, "table evals: the row %s of step %llu is damaged (checksum differs)", name ? name : "without a name",
                   (unsigned long long)step);
        eval_forget(c, st);
    }
    c->out->evals++;
}

int runlog_check(struct runlog *log, int mend, void (*say)(void *ctx, const char *sentence), void *ctx, struct runlog_check *out,
                 struct err *err)
{
    struct checking c = { log, out, say, ctx, mend };
    struct stat     st;
    int             sums = sqlite3_table_column_metadata(log->db, "main", "steps", "sum", NULL, NULL, NULL, NULL, NULL) == SQLITE_OK;

    *out = (struct runlog_check){ 0 };
    if (stat(log->path, &st))
        return err_set(err, -errno, "%s: %s", log->path, strerror(errno));
    out->bytes = (uint64_t)st.st_size;
    if (!check_rows(&c, "PRAGMA integrity_check", integrity_row) || out->damaged)
        return 0; // rows of damaged pages say nothing
    check_rows(&c, "SELECT key FROM runs", setting_row);
    check_steps(&c);
    check_rows(&c, sums ? "SELECT step, name, value, sum FROM evals" : "SELECT step, name, value, NULL FROM evals", eval_row);
    return 0;
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
    struct checking     c = { log, &found, say_first, &first, 0 };

    check_steps(&c);
    if (!found.damaged && found.steps < n)
        say_damage(&c, "table steps: it ends before step %llu, but %llu steps were committed", (unsigned long long)found.steps,
                   (unsigned long long)n);
    return found.damaged ? err_set(err, -EBADMSG, "%s", first.text) : 0;
}
