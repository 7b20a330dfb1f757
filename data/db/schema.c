/* schema.c: the measuring tables, the head by which a database is known as a run's, and how one of
 * an older format becomes one of this.
 *
 * Format 3 (this one) has the optimizer's numbers as columns of journal_state, and counts commits.
 * Format 2 had these numbers as the bytes of a C struct, and in its first years no sums in steps
 * and evals. */
#include "data/db/schema.h"

#include "data/base/crc32c.h"
#include "data/db/real_bits.h"

enum { RUN_ID = 0x73695472, FORMAT = 3, OLDEST = 2 }; // "siTr"
enum { VALUE_MAX_BYTES = 1 << 28 };                   // of one value

#define FROM_0  " /* from 0: the first step is step 0 here, and step 1 in every log and report */"
#define AFTER_0 " /* evaluated after this step, from 0: after the first step it is 0 */"
static const char tables[] =
    "CREATE TABLE runs (key TEXT PRIMARY KEY, value TEXT, crc INTEGER);"
    "CREATE TABLE notices (id INTEGER PRIMARY KEY, time TEXT, text TEXT);"
    "CREATE TABLE steps (step INTEGER PRIMARY KEY" FROM_0 ", tokens INTEGER, loss REAL, lr REAL,"
    " grad_norm REAL, clipped INTEGER, skipped INTEGER, seconds REAL, peak_rss INTEGER,"
    " sum INTEGER);"
    "CREATE TABLE spans (step INTEGER" FROM_0 ", phase TEXT, block INTEGER, device INTEGER,"
    " start_ns INTEGER, end_ns INTEGER, bytes INTEGER);"
    "CREATE INDEX spans_step ON spans (step);"
    "CREATE TABLE traffic (step INTEGER" FROM_0 ", phase TEXT, link TEXT, device INTEGER,"
    " class TEXT, direction TEXT, bytes INTEGER, padding_bytes INTEGER);"
    "CREATE INDEX traffic_step ON traffic (step);"
    "CREATE TABLE whole (step INTEGER PRIMARY KEY);"
    "CREATE TABLE evals (step INTEGER" AFTER_0 ", name TEXT, value REAL, sum INTEGER,"
    " PRIMARY KEY (step, name));"
    "CREATE TABLE devices (device INTEGER PRIMARY KEY, path TEXT, backend TEXT, disk TEXT,"
    " bytes INTEGER);";

#define COMMITS "commits (n INTEGER) /* how many there were; run.lock has the number beside */"

/* phase_seconds: time spent, summed, folded steps included. The others use the steps kept whole,
 * spans of which none is missing or summed (start_ns 0). phase_wall: the union of a phase's spans,
 * by device. breakdown: the paper's three bars as the training thread saw them: forward with its
 * waits for parameters; loss, backward and what it did and waited to hand gradients over; the
 * update as the time waited for it (in mode mem, where it runs on this thread, itself and its
 * commits). device_rate: bytes moved by the time in which at least one transfer of that kind was
 * under way; an update's reads and writes are timed as its parts. */
static const char *const views[] = {
    "phase_seconds AS SELECT step, phase, sum(end_ns - start_ns) / 1e9 AS seconds,"
    " sum(bytes) AS bytes FROM spans GROUP BY step, phase",

    "whole_spans AS SELECT * FROM spans WHERE step NOT IN"
    " (SELECT step FROM spans WHERE start_ns = 0)",

    "phase_wall AS SELECT step, phase, device,"
    " sum(max(0, end_ns - max(start_ns, coalesce(before, 0)))) / 1e9 AS seconds,"
    " sum(bytes) AS bytes"
    " FROM (SELECT *, max(end_ns) OVER (PARTITION BY step, phase, device ORDER BY start_ns, end_ns"
    " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM whole_spans)"
    " GROUP BY step, phase, device",

    "host_spans AS SELECT w.step, phase, (end_ns - start_ns) / 1e9 AS seconds,"
    " start_ns < loss_ns AS in_forward FROM whole_spans w"
    " JOIN (SELECT step, min(start_ns) AS loss_ns FROM spans WHERE phase = 'loss' GROUP BY step)"
    " USING (step) WHERE device = -1",

    "breakdown AS SELECT step, seconds, fw, bw_grad, \"update\","
    " max(0, seconds - fw - bw_grad - \"update\") AS other FROM (SELECT s.step, s.seconds,"
    " coalesce(sum(h.seconds) FILTER (WHERE phase = 'forward'"
    " OR (phase = 'param_read' AND in_forward)), 0) AS fw,"
    " coalesce(sum(h.seconds) FILTER (WHERE phase IN"
    " ('loss', 'backward', 'grad_compress', 'grad_write')"
    " OR (phase = 'param_read' AND NOT in_forward)), 0) AS bw_grad,"
    " coalesce(sum(h.seconds) FILTER (WHERE phase = 'optimizer_wait'"
    " OR (phase IN ('update', 'commit')"
    " AND (SELECT value FROM runs WHERE key = 'option.mode') = 'mem')), 0) AS \"update\""
    " FROM steps s JOIN host_spans h USING (step) WHERE s.seconds > 0 GROUP BY s.step)",

    "device_rate AS SELECT device, link, direction, phase, sum(bytes) AS bytes,"
    " sum(seconds) AS busy_seconds, sum(bytes) / sum(seconds) AS bytes_per_second"
    " FROM (SELECT step, device, link, direction,"
    " iif(phase = 'update', 'update_' || direction, phase) AS phase, sum(bytes) AS bytes"
    " FROM traffic WHERE device >= 0 GROUP BY step, device, link, direction, phase)"
    " JOIN (SELECT step, device, phase, seconds FROM phase_wall) USING (step, device, phase)"
    " GROUP BY device, link, direction, phase HAVING sum(seconds) > 0",

    "traffic_per_step AS SELECT step, link, class, direction, sum(bytes) AS bytes,"
    " sum(padding_bytes) AS padding_bytes FROM traffic"
    " WHERE phase NOT IN ('redo', 'setup', 'eval') GROUP BY step, link, class, direction",
};
enum { VIEWS = sizeof views / sizeof *views };

const char schema_journal_state[] =
    "journal_state (id INTEGER PRIMARY KEY CHECK (id = 1), next_step INTEGER, applied INTEGER,"
    " optimizer INTEGER /* 0 adamw, 1 adam, 2 sgd, 3 adagrad */, lr REAL, beta1 REAL, beta2 REAL,"
    " eps REAL, one_minus_beta1 REAL, one_minus_beta2 REAL, step_size REAL, bias2_sqrt REAL,"
    " grad_scale REAL, first INTEGER, sum INTEGER)";

static const char creating[] = "creating", upgrading[] = "bringing it to this format";

int schema_create(struct db *db, struct err *err)
{
    int rc = db_exec(db, creating, err, "BEGIN IMMEDIATE; PRAGMA application_id=%d; "
                     "PRAGMA user_version=%d; %s", RUN_ID, FORMAT, tables);

    for (int i = 0; i < VIEWS && !rc; i++)
        rc = db_exec(db, creating, err, "CREATE VIEW %s", views[i]);
    return rc ? rc : db_exec(db, creating, err, "CREATE TABLE " COMMITS ";"
                             "INSERT INTO commits VALUES (0); COMMIT");
}

/* A trigger would act on every row, a view in a table's place may go on for ever, a view of ours
 * may have become another, a value may be computed. */
int schema_guard(struct db *db, struct err *err)
{
    int rc = 0;

    sqlite3_db_config(db->sql, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(db->sql, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(db->sql, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(db->sql, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_limit(db->sql, SQLITE_LIMIT_LENGTH, VALUE_MAX_BYTES);
    for (int i = 0; i < VIEWS && !rc; i++)
        rc = db_exec(db, "making the tables", err, "CREATE TEMP VIEW %s", views[i]);
    return rc;
}

int schema_check(struct db *db, int *version, struct err *err)
{
    int64_t id, format, foreign;

    if (db_number(db, "PRAGMA application_id", &id) ||
        db_number(db, "PRAGMA user_version", &format))
        return db_fail(db, "reading its header", err);
    if (id != RUN_ID)
        return err_misuse(err, "%s is a SQLite database but not of a siTrain run", db->path);
    if (format > FORMAT)
        return err_misuse(err, "%s has format %lld, of a newer siTrain, which reads it; this one "
                          "reads formats %d to %d", db->path, (long long)format, OLDEST, FORMAT);
    if (format < OLDEST)
        return err_misuse(err, "%s has format %lld; this siTrain reads formats %d to %d", db->path,
                          (long long)format, OLDEST, FORMAT);
    if (db_number(db, "SELECT count(*) FROM pragma_table_list AS t, pragma_table_xinfo(t.name) AS c"
                  " WHERE t.schema = 'main' AND (t.type = 'virtual' OR c.hidden > 0)", &foreign))
        return db_fail(db, "reading its tables", err);
    if (foreign)
        return err_set(err, -EBADMSG, "%s: it has virtual tables or computed columns, which no "
                       "siTrain run has", db->path);
    *version = (int)format;
    return 0;
}

/* ---- format 2 ---- */

/* The optimizer's numbers of format 2: int, nine floats, int, as the machine has them. */
enum { WAS_FLOATS = 9 };
struct was_optim { int32_t optimizer; float numbers[WAS_FLOATS]; int32_t first; };

/* A row whose sum did not hold gets one that does not hold either. */
static int state_put(struct db *db, sqlite3_stmt *was, struct err *err)
{
    uint64_t row[6 + WAS_FLOATS] = { 1, (uint64_t)sqlite3_column_int64(was, 0),
                                     (uint64_t)sqlite3_column_int64(was, 1) };
    struct was_optim o;

    if (sqlite3_column_bytes(was, 2) != sizeof o)
        return 0; // its row is missing, then
    memcpy(&o, sqlite3_column_blob(was, 2), sizeof o);
    row[3] = (uint64_t)o.optimizer;
    for (int i = 0; i < WAS_FLOATS; i++)
        row[4 + i] = real_bits((double)o.numbers[i]);
    row[4 + WAS_FLOATS] = (uint64_t)o.first;
    uint32_t sum = crc32c(crc32c(0, row + 1, 2 * sizeof *row), &o, sizeof o);

    row[5 + WAS_FLOATS] = crc32c(0, row, (5 + WAS_FLOATS) * sizeof *row) ^
                          (sqlite3_column_int64(was, 3) != sum);
    return db_put(db, "INSERT INTO journal_state VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", upgrading,
                  err, "uuuuddddddddduu", row);
}

/* Not in mode mem, which has another journal. For who only reads, the new one is a temporary table,
 * which its name then means. */
static int state_columns(struct db *db, int read_only, struct err *err)
{
    sqlite3_stmt *was;

    if (sqlite3_table_column_metadata(db->sql, "main", "journal_state", NULL, NULL, NULL, NULL,
                                      NULL, NULL))
        return 0;
    int rc = db_exec(db, upgrading, err,
                     "CREATE TEMP TABLE was AS SELECT next_step, applied,"
                     " optim, sum FROM main.journal_state; %sCREATE %s%s",
                     read_only ? "" : "DROP TABLE main.journal_state; ",
                     read_only ? "TEMP TABLE " : "TABLE main.", schema_journal_state);

    if (rc)
        return rc;
    int got = db_row(db, &was, "SELECT * FROM temp.was", upgrading, err, "");
    for (; got > 0 && !rc; got = rc ? rc : db_next(db, was, upgrading, err))
        rc = state_put(db, was, err);
    sqlite3_reset(was);
    return got ? got : db_exec(db, upgrading, err, "DROP TABLE temp.was");
}

/* Rows without a sum stay without. */
static int add_sums(struct db *db, const char *table, int read_only, struct err *err)
{
    if (!sqlite3_table_column_metadata(db->sql, "main", table, "sum", NULL, NULL, NULL, NULL, NULL))
        return 0;
    return db_exec(db, upgrading, err,
                   read_only ? "CREATE TEMP VIEW %s AS SELECT *, NULL AS sum FROM main.%s"
                             : "ALTER TABLE %s ADD COLUMN sum INTEGER", table, table);
}

int schema_upgrade(struct db *db, int version, int read_only, struct err *err)
{
    if (version == FORMAT)
        return 0;
    int rc = db_exec(db, upgrading, err, read_only ? "BEGIN" : "BEGIN IMMEDIATE");

    rc = rc ? rc : state_columns(db, read_only, err);
    rc = rc ? rc : add_sums(db, "steps", read_only, err);
    rc = rc ? rc : add_sums(db, "evals", read_only, err);
    rc = rc ? rc : db_exec(db, upgrading, err, "CREATE %s" COMMITS "; %s"
                           "INSERT INTO commits VALUES (0); COMMIT",
                           read_only ? "TEMP TABLE " : "TABLE main.",
                           read_only ? "" : "PRAGMA user_version=3;");
    if (rc && !sqlite3_get_autocommit(db->sql))
        sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}
