/* schema.c: creates the measuring tables, and recognises a run's database.
 *
 * Format 12 is that of snapshots whose states lie on the drives of the run
 * (run/snapshots/portions.h): programs of format 11 would remove them without these files.
 *
 * Format 11 is that of snapshots (run/snapshots/snapshots.h), which have the tables of their run:
 * programs of format 9 would train them.
 *
 * Format 10 is that of a run that goes back to a snapshot, until it is there: its journal names
 * states that are being written over. Then the run has the format from before again.
 *
 * Format 9 has the tables of format 4, too. Only runs with a base in place have it
 * (--base-in-place): programs of format 8 would look for its blocks on devices.
 *
 * Format 8 has the tables of format 4, too. Only runs with packed blocks have it (--base-dtype):
 * programs of format 7 would take their bits for parameters.
 *
 * Format 7 has the tables of format 4, too. Only runs with frozen blocks have it: these have wire
 * parameters alone, and rows in the journal that no commit changes.
 *
 * Format 6 has the tables of format 4, too. Only runs that use what programs of format 5 would
 * overlook have it: an option of the arithmetic (train_opts_newer), several sources of tokens, or
 * their weights.
 *
 * Format 5 has the tables of format 4. Only runs whose rows are conversations have it, because
 * programs of format 4 would take these for labelled rows. All other runs have format 4.
 *
 * Formats 2 and 3 are those of programs before the first release. Their runs are refused. */
#include "data/db/schema.h"

#include "data/base/text_made.h"

enum { RUN_ID = 0x73695472, FORMAT = 4, NEWEST = FORMAT_PORTIONS }; // "siTr"
enum { VALUE_MAX_BYTES = 1 << 28 };                             // the most of one value

#define FROM_0  " /* from 0: the first step is step 0 here, and step 1 in every log and report */"
#define AFTER_0 " /* evaluated after this step, from 0: after the first step it is 0 */"
static const char tables[] =
    "CREATE TABLE runs (key TEXT PRIMARY KEY, value TEXT, crc INTEGER);"
    "CREATE TABLE notices (id INTEGER PRIMARY KEY, time TEXT, text TEXT);"
    "CREATE TABLE steps (step INTEGER PRIMARY KEY" FROM_0 ", tokens INTEGER, loss REAL, lr REAL,"
    " grad_norm REAL, clipped INTEGER, skipped INTEGER, seconds REAL, peak_rss INTEGER,"
    " sum INTEGER);"
    "CREATE TABLE spans (step INTEGER" FROM_0 ", phase TEXT, block INTEGER, device INTEGER,"
    " start_ns INTEGER, end_ns INTEGER, bytes INTEGER, busy_ns INTEGER);"
    "CREATE INDEX spans_step ON spans (step, end_ns);" // finds what ended in a wait
    "CREATE TABLE traffic (step INTEGER" FROM_0 ", phase TEXT, link TEXT, device INTEGER,"
    " class TEXT, direction TEXT, bytes INTEGER, padding_bytes INTEGER);"
    "CREATE INDEX traffic_step ON traffic (step);"
    "CREATE TABLE whole (step INTEGER PRIMARY KEY);"
    "CREATE TABLE evals (step INTEGER" AFTER_0 ", name TEXT, value REAL, sum INTEGER,"
    " PRIMARY KEY (step, name));"
    "CREATE TABLE devices (device INTEGER PRIMARY KEY, path TEXT, backend TEXT, disk TEXT,"
    " bytes INTEGER);"
    "CREATE TABLE processes (process INTEGER PRIMARY KEY, first_step INTEGER" FROM_0 ","
    " begun TEXT, pid INTEGER, version TEXT, command TEXT, host TEXT, system TEXT, cpu TEXT,"
    " threads INTEGER, memory_bytes INTEGER,"
    " clock_ns INTEGER /* of spans, at the time unix_ns */, unix_ns INTEGER);"
    "CREATE TABLE choices (step INTEGER PRIMARY KEY" FROM_0 ", why TEXT,"
    " layers INTEGER, inputs_kept INTEGER, inputs_offloaded INTEGER, attentions_kept INTEGER,"
    " attentions_offloaded INTEGER, mlps_kept INTEGER, mlps_offloaded INTEGER,"
    " kept_bytes INTEGER, moved_bytes INTEGER, step_seconds REAL, expected_seconds REAL);"
    SCHEMA_SNAPSHOTS ";"
    "CREATE TABLE commits (n INTEGER, /* how many there were; run.lock has the number beside */"
    " taken INTEGER /* how many of them a checkpoint had taken into run.db */);"
    "INSERT INTO commits VALUES (0, 0);";

/* The views of these tables; see there. */
__asm__(".pushsection .rodata\n"
        "views_sql: .incbin \"data/db/views.sql\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char views_sql[];

static const char creating[] = "creating";

/* Makes all views: in run.db for everybody, or for this connection alone. */
static int make_views(struct db *db, int temp, struct err *err)
{
    static const char create[] = "CREATE VIEW ";
    int               rc = 0;

    for (const char *at = strstr(views_sql, create); at && !rc;) {
        const char *body = at + sizeof create - 1;

        at = strstr(body, create);
        rc = db_exec(db, "making the views", err, "%s%.*s", temp ? "CREATE TEMP VIEW " : create,
                     (int)(at ? at - body : (ptrdiff_t)strlen(body)), body);
    }
    return rc;
}

int schema_create(struct db *db, struct err *err)
{
    int rc = db_exec(db, creating, err, "BEGIN IMMEDIATE; PRAGMA application_id=%d; "
                     "PRAGMA user_version=%d; %s", RUN_ID, FORMAT, tables);

    rc = rc ? rc : make_views(db, 0, err);
    return rc ? rc : db_exec(db, creating, err, "COMMIT");
}

int schema_raise(struct db *db, enum run_format format, struct err *err)
{
    int64_t has;

    if (db_number(db, "PRAGMA user_version", &has))
        return db_fail(db, "reading its header", err);
    return has >= (int)format ? 0 : db_exec(db, creating, err, "PRAGMA user_version=%d", format);
}

int schema_pairs(struct db *db, struct err *err)
{
    return db_exec(db, creating, err, "CREATE TABLE rewards (step INTEGER PRIMARY KEY" FROM_0
                   ", pairs INTEGER, chosen REAL, rejected REAL, accuracy REAL, sum INTEGER)");
}

/* Protects against a stranger's schema: a trigger would act on every row, a view in a table's place
 * may never end, a value may be computed. */
void schema_guard(struct db *db)
{
    sqlite3_db_config(db->sql, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(db->sql, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(db->sql, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(db->sql, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_limit(db->sql, SQLITE_LIMIT_LENGTH, VALUE_MAX_BYTES);
}

int schema_views(struct db *db, struct err *err)
{
    static const char making[] = "making the views";

    if (db->views)
        return 0;
    int64_t reading = 0;
    int     rc = db_number(db, "PRAGMA query_only", &reading) ? db_fail(db, making, err) : 0;

    rc = rc || !reading ? rc : db_exec(db, making, err, "PRAGMA query_only=0");
    rc = rc ? rc : make_views(db, 1, err);
    int back = reading ? db_exec(db, making, rc ? NULL : err, "PRAGMA query_only=1") : 0;

    db->views = !rc;
    return rc ? rc : back;
}

int schema_views_since(struct db *db, uint64_t step, struct err *err)
{
    int rc = schema_views(db, err);

    if (rc)
        return rc;
    return db_exec(db, "making the views", err, "PRAGMA query_only=0; DROP VIEW temp.whole_steps;"
                   "CREATE TEMP VIEW whole_steps AS SELECT DISTINCT step FROM spans"
                   " WHERE step >= %" PRIu64 " AND step NOT IN"
                   " (SELECT step FROM spans WHERE step >= %" PRIu64 " AND start_ns = 0);"
                   " PRAGMA query_only=1", step, step);
}

/* The names of all views, each in quotes and followed by a comma; malloced. */
static char *views_names(void)
{
    static const char create[] = "CREATE VIEW ";
    char             *out = NULL;
    size_t            size;
    FILE             *f = open_memstream(&out, &size);

    for (const char *at = views_sql; f && (at = strstr(at, create));) {
        at += sizeof create - 1;
        fprintf(f, "'%.*s',", (int)strcspn(at, " "), at);
    }
    return text_made(f, &out, 0);
}

/* Refuses somebody's table, view or index with a name that siTrain gives: to a view, which it would
 * answer for, or to a table that runs get later, which could not be written then. */
static int names_check(struct db *db, struct err *err)
{
    static const char ask[] =
        "WITH later(name, columns) AS (VALUES"
        " ('snapshots', 'n,step,path,bytes,shared_bytes,seconds,taken'),"
        " ('scrubs', 'portion,position,verified_ns,passes,bytes'),"
        " ('damages', 'text,portion,found'),"
        " ('branches', 'branch,first_step,steps,to_step,left,options'),"
        " ('rewards', 'step,pairs,chosen,rejected,accuracy,sum')),"
        " ours(name, columns) AS (SELECT * FROM later UNION ALL"
        " SELECT 'left_' || name, 'branch,' || (SELECT group_concat(name) FROM"
        " pragma_table_info(made.name)) FROM (SELECT name FROM later WHERE name = 'rewards' UNION"
        " VALUES ('steps'), ('evals'), ('choices')) AS made)"
        " SELECT m.name FROM main.sqlite_master AS m LEFT JOIN ours"
        " ON lower(CAST(m.name AS TEXT)) = ours.name WHERE CASE WHEN ours.name IS NULL"
        " THEN m.type IS NOT 'view' AND lower(CAST(m.name AS TEXT)) IN (%s'')"
        " ELSE m.type IS NOT 'table' OR (SELECT group_concat(name) FROM"
        " pragma_table_info(m.name)) IS NOT ours.columns END";
    char         *views = views_names();
    char         *sql = views ? sqlite3_mprintf(ask, views) : NULL;
    sqlite3_stmt *st = NULL;
    int           rc = 0, got = SQLITE_ERROR;

    if (sql && !sqlite3_prepare_v2(db->sql, sql, -1, &st, NULL))
        got = sqlite3_step(st);
    if (got == SQLITE_ROW)
        rc = err_misuse(err, "%s: its table, view or index %.64s has a name that siTrain gives, "
                        "and is not of siTrain: rename or drop it with sqlite3", db->path,
                        (const char *)sqlite3_column_text(st, 0));
    else if (got != SQLITE_DONE)
        rc = sql ? db_fail(db, "reading its tables", err)
                 : err_set(err, -ENOMEM, "%s: out of memory", db->path);
    sqlite3_finalize(st);
    sqlite3_free(sql);
    free(views);
    return rc;
}

int schema_check(struct db *db, struct err *err)
{
    int64_t id, format, foreign;

    if (db_number(db, "PRAGMA application_id", &id) ||
        db_number(db, "PRAGMA user_version", &format))
        return db_fail(db, "reading its header", err);
    if (id != RUN_ID)
        return err_misuse(err, "%s is a SQLite database but not of a siTrain run", db->path);
    if (format > NEWEST)
        return err_misuse(err, "%s has format %lld, of a newer siTrain, which reads it; this one "
                          "reads formats %d to %d", db->path, (long long)format, FORMAT, NEWEST);
    if (format < FORMAT)
        return err_misuse(err, "%s has format %lld, of a siTrain before the first release; this "
                          "one reads formats %d to %d: export the model with the siTrain that made "
                          "the run", db->path, (long long)format, FORMAT, NEWEST);
    // SQLite has compared names and types with the statements. (pragma_table_list would prepare
    // every view, which takes longer than all else of an opening.) Nothing of ours is virtual.
    if (db_number(db, "SELECT count(*) FROM main.sqlite_master WHERE"
                  " (CAST(sql AS TEXT) LIKE '%virtual%' OR CAST(name AS TEXT) LIKE 'pragma%')"
                  " AND lower(CAST(type AS TEXT)) IS NOT 'view'", &foreign))
        return db_fail(db, "reading its tables", err);
    if (!foreign && db_number(db, "SELECT count(*) FROM (SELECT CAST(name AS TEXT) AS name"
                              " FROM main.sqlite_master"
                              " WHERE lower(CAST(type AS TEXT)) IS NOT 'view' LIMIT -1) AS t"
                              " LEFT JOIN pragma_table_xinfo(t.name) AS c WHERE c.hidden > 0",
                              &foreign))
        return db_fail(db, "reading its tables", err);
    if (foreign)
        return err_set(err, -EBADMSG, "%s: it has virtual tables or computed columns, which no "
                       "siTrain run has", db->path);
    return names_check(db, err);
}
