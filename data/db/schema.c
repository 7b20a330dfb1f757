/* schema.c: creates the measuring tables, recognises a run's database, and upgrades one of an older
 * format.
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
 * Format 4 stores how long a part of a span was under way, has names for what the host waits for,
 * and stores a run's processes and choices. In format 3 the host's waits had the names of what was
 * waited for, and folded steps had both in one row. Since format 3, the optimizer's numbers are
 * columns of journal_state, and commits are counted. Format 2 had these numbers as the bytes of a C
 * struct, and in its first years no checksums in steps and evals. */
#include "data/db/schema.h"

#include "data/base/crc32c.h"
#include "data/db/real_bits.h"

enum { RUN_ID = 0x73695472, FORMAT = 4, NEWEST = SCHEMA_IN_PLACE, OLDEST = 2 }; // "siTr"
enum { VALUE_MAX_BYTES = 1 << 28 };                   // the most of one value

#define FROM_0  " /* from 0: the first step is step 0 here, and step 1 in every log and report */"
#define AFTER_0 " /* evaluated after this step, from 0: after the first step it is 0 */"
#define SPANS_INDEX "CREATE INDEX spans_step ON spans (step, end_ns)" // finds what ended in a wait
static const char tables[] =
    "CREATE TABLE runs (key TEXT PRIMARY KEY, value TEXT, crc INTEGER);"
    "CREATE TABLE notices (id INTEGER PRIMARY KEY, time TEXT, text TEXT);"
    "CREATE TABLE steps (step INTEGER PRIMARY KEY" FROM_0 ", tokens INTEGER, loss REAL, lr REAL,"
    " grad_norm REAL, clipped INTEGER, skipped INTEGER, seconds REAL, peak_rss INTEGER,"
    " sum INTEGER);"
    "CREATE TABLE spans (step INTEGER" FROM_0 ", phase TEXT, block INTEGER, device INTEGER,"
    " start_ns INTEGER, end_ns INTEGER, bytes INTEGER, busy_ns INTEGER);"
    SPANS_INDEX ";"
    "CREATE TABLE traffic (step INTEGER" FROM_0 ", phase TEXT, link TEXT, device INTEGER,"
    " class TEXT, direction TEXT, bytes INTEGER, padding_bytes INTEGER);"
    "CREATE INDEX traffic_step ON traffic (step);"
    "CREATE TABLE whole (step INTEGER PRIMARY KEY);"
    "CREATE TABLE evals (step INTEGER" AFTER_0 ", name TEXT, value REAL, sum INTEGER,"
    " PRIMARY KEY (step, name));"
    "CREATE TABLE devices (device INTEGER PRIMARY KEY, path TEXT, backend TEXT, disk TEXT,"
    " bytes INTEGER);";

#define NEWER(temp)                                                                                \
    "CREATE " temp "TABLE processes (process INTEGER PRIMARY KEY, first_step INTEGER" FROM_0 ","   \
    " begun TEXT, pid INTEGER, version TEXT, command TEXT, host TEXT, system TEXT, cpu TEXT,"      \
    " threads INTEGER, memory_bytes INTEGER,"                                                      \
    " clock_ns INTEGER /* of spans, at the time unix_ns */, unix_ns INTEGER);"                     \
    "CREATE " temp "TABLE choices (step INTEGER PRIMARY KEY" FROM_0 ", why TEXT,"                  \
    " layers INTEGER, inputs_kept INTEGER, inputs_offloaded INTEGER, attentions_kept INTEGER,"     \
    " attentions_offloaded INTEGER, mlps_kept INTEGER, mlps_offloaded INTEGER,"                    \
    " kept_bytes INTEGER, moved_bytes INTEGER, step_seconds REAL, expected_seconds REAL);"

#define COMMITS "commits (n INTEGER, /* how many there were; run.lock has the number beside */" \
                " taken INTEGER) /* how many of them a checkpoint had taken into run.db */"

/* The views of these tables; see there. */
__asm__(".pushsection .rodata\n"
        "views_sql: .incbin \"data/db/views.sql\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char views_sql[];

#define STATE                                                                                      \
    "journal_state (id INTEGER PRIMARY KEY CHECK (id = 1), next_step INTEGER, applied INTEGER,"    \
    " optimizer INTEGER /* 0 adamw, 1 adam, 2 sgd, 3 adagrad */, lr REAL, beta1 REAL, beta2 REAL," \
    " eps REAL, one_minus_beta1 REAL, one_minus_beta2 REAL, step_size REAL, bias2_sqrt REAL,"      \
    " grad_scale REAL, first INTEGER, sum INTEGER)"
const char schema_journal_state[] = STATE;

static const char creating[] = "creating", upgrading[] = "bringing it to this format";

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
                     "PRAGMA user_version=%d; %s%s", RUN_ID, FORMAT, tables, NEWER(""));

    rc = rc ? rc : make_views(db, 0, err);
    return rc ? rc : db_exec(db, creating, err, "CREATE TABLE " COMMITS ";"
                             "INSERT INTO commits VALUES (0, 0); COMMIT");
}

int schema_raise(struct db *db, int format, struct err *err)
{
    int64_t has;

    if (db_number(db, "PRAGMA user_version", &has))
        return db_fail(db, "reading its header", err);
    return has >= format ? 0 : db_exec(db, creating, err, "PRAGMA user_version=%d", format);
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

int schema_views(struct db *db, struct err *err) { return make_views(db, 1, err); }

int schema_views_since(struct db *db, uint64_t step, struct err *err)
{
    return db_exec(db, "making the views", err, "PRAGMA query_only=0; DROP VIEW temp.whole_steps;"
                   "CREATE TEMP VIEW whole_steps AS SELECT DISTINCT step FROM spans"
                   " WHERE step >= %" PRIu64 " AND step NOT IN"
                   " (SELECT step FROM spans WHERE step >= %" PRIu64 " AND start_ns = 0);"
                   " PRAGMA query_only=1", step, step);
}

int schema_check(struct db *db, int *version, struct err *err)
{
    int64_t id, format, foreign;

    if (db_number(db, "PRAGMA application_id", &id) ||
        db_number(db, "PRAGMA user_version", &format))
        return db_fail(db, "reading its header", err);
    if (id != RUN_ID)
        return err_misuse(err, "%s is a SQLite database but not of a siTrain run", db->path);
    if (format > NEWEST)
        return err_misuse(err, "%s has format %lld, of a newer siTrain, which reads it; this one "
                          "reads formats %d to %d", db->path, (long long)format, OLDEST, NEWEST);
    if (format < OLDEST)
        return err_misuse(err, "%s has format %lld; this siTrain reads formats %d to %d", db->path,
                          (long long)format, OLDEST, NEWEST);
    if (db_number(db, "SELECT count(*) FROM (SELECT name, type FROM pragma_table_list"
                  " WHERE schema = 'main' AND type <> 'view' LIMIT -1) AS t,"
                  " pragma_table_xinfo(t.name) AS c WHERE t.type = 'virtual' OR c.hidden > 0",
                  &foreign))
        return db_fail(db, "reading its tables", err);
    if (foreign)
        return err_set(err, -EBADMSG, "%s: it has virtual tables or computed columns, which no "
                       "siTrain run has", db->path);
    *version = (int)format;
    return 0;
}

/* Calls row() for each row of a query. The statements of `then` run first, and may change what the
 * query has read. */
static int each_of(struct db *db, const char *query, const char *then,
                   int (*row)(struct db *db, sqlite3_stmt *was, struct err *err), struct err *err)
{
    sqlite3_stmt *was;
    int           rc = db_exec(db, upgrading, err, "CREATE TEMP TABLE was AS %s; %s", query, then);

    if (rc)
        return rc;
    int got = db_row(db, &was, "SELECT * FROM temp.was", upgrading, err, "");
    for (; got > 0 && !rc; got = rc ? rc : db_next(db, was, upgrading, err))
        rc = row(db, was, err);
    sqlite3_reset(was);
    return got ? got : db_exec(db, upgrading, err, "DROP TABLE temp.was");
}

/* ---- format 2 ---- */

/* The optimizer's numbers in format 2: int, nine floats, int, in the machine's byte order. */
enum { WAS_FLOATS = 9 };
struct was_optim { int32_t optimizer; float numbers[WAS_FLOATS]; int32_t first; };

/* Converts a row of the state. A wrong checksum stays wrong. */
static int state_put(struct db *db, sqlite3_stmt *was, struct err *err)
{
    uint64_t row[6 + WAS_FLOATS] = { 1, (uint64_t)sqlite3_column_int64(was, 0),
                                     (uint64_t)sqlite3_column_int64(was, 1) };
    struct was_optim o;

    if (sqlite3_column_bytes(was, 2) != sizeof o)
        return 0; // the row will be missing
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

/* Turns the state into columns. Mode mem has another journal and no such table. For a reader the
 * new table is temporary, and its name then means that one. */
static int state_columns(struct db *db, int read_only, struct err *err)
{
    if (sqlite3_table_column_metadata(db->sql, "main", "journal_state", NULL, NULL, NULL, NULL,
                                      NULL, NULL))
        return 0;
    return each_of(db, "SELECT next_step, applied, optim, sum FROM main.journal_state",
                   read_only ? "CREATE TEMP TABLE " STATE
                             : "DROP TABLE main.journal_state; CREATE TABLE main." STATE,
                   state_put, err);
}

/* Adds the columns for checksums. Existing rows stay without. */
static int add_sums(struct db *db, const char *table, int read_only, struct err *err)
{
    if (!sqlite3_table_column_metadata(db->sql, "main", table, "sum", NULL, NULL, NULL, NULL, NULL))
        return 0;
    return db_exec(db, upgrading, err,
                   read_only ? "CREATE TEMP VIEW %s AS SELECT *, NULL AS sum FROM main.%s"
                             : "ALTER TABLE %s ADD COLUMN sum INTEGER", table, table);
}

static int from_2(struct db *db, int read_only, struct err *err)
{
    int rc = state_columns(db, read_only, err);

    rc = rc ? rc : add_sums(db, "steps", read_only, err);
    rc = rc ? rc : add_sums(db, "evals", read_only, err);
    return rc ? rc : db_exec(db, upgrading, err, "CREATE %s" COMMITS "; "
                             "INSERT INTO commits VALUES (0, 0)",
                             read_only ? "TEMP TABLE " : "TABLE main.");
}

/* ---- format 3 ---- */

/* In a folded row of format 3, the devices' time and the host's waits are one number, which counts
 * as the devices'. */
#define WAS_NAME                                                                                   \
    "CASE WHEN device = -1 AND start_ns > 0 THEN CASE phase WHEN 'param_read' THEN 'wait_params'"  \
    " WHEN 'optimizer_wait' THEN 'wait_update' WHEN 'grad_write' THEN 'wait_gradient'"             \
    " WHEN 'act_read' THEN 'wait_act_read' WHEN 'act_write' THEN 'wait_act_write' ELSE phase END"  \
    " WHEN phase = 'optimizer_wait' THEN 'wait_update' ELSE phase END"
#define WAS_DEVICE                                                                                 \
    "iif(device = -1 AND start_ns = 0 AND phase IN ('param_read', 'grad_write', 'update',"         \
    " 'update_read', 'update_compute', 'update_write', 'update_params', 'act_read', 'act_write',"  \
    " 'redo') AND (SELECT value FROM runs WHERE key = 'option.mode') IS NOT 'mem', NULL, device)"

static int drop_view(struct db *db, sqlite3_stmt *names, struct err *err)
{
    return db_exec(db, upgrading, err, "DROP VIEW IF EXISTS main.\"%w\"",
                   sqlite3_column_text(names, 0));
}

/* Renews the views in run.db, which are for people who open it with sqlite3. */
static int renew_views(struct db *db, struct err *err)
{
    int rc = each_of(db, "SELECT name FROM main.sqlite_schema WHERE type = 'view'", "", drop_view,
                     err);

    return rc ? rc : make_views(db, 0, err);
}

static int from_3(struct db *db, int read_only, struct err *err)
{
    if (read_only)
        return db_exec(db, upgrading, err, NEWER("TEMP ") "CREATE TEMP VIEW spans AS SELECT step, "
                       WAS_NAME " AS phase, block, " WAS_DEVICE " AS device, start_ns, end_ns,"
                       " bytes, NULL AS busy_ns FROM main.spans");
    int rc = db_exec(db, upgrading, err, NEWER("") "ALTER TABLE spans ADD COLUMN busy_ns INTEGER;"
                     "UPDATE spans SET phase = " WAS_NAME ", device = " WAS_DEVICE
                     " WHERE device = -1 AND phase IN ('param_read', 'optimizer_wait',"
                     " 'grad_write', 'update', 'update_read', 'update_compute', 'update_write',"
                     " 'update_params', 'act_read', 'act_write', 'redo');"
                     "DROP INDEX IF EXISTS spans_step; " SPANS_INDEX);
    return rc ? rc : renew_views(db, err);
}

int schema_upgrade(struct db *db, int version, int read_only, struct err *err)
{
    if (version >= FORMAT)
        return 0;
    int rc = db_exec(db, upgrading, err, read_only ? "BEGIN" : "BEGIN IMMEDIATE");

    if (version == 2)
        rc = rc ? rc : from_2(db, read_only, err);
    rc = rc ? rc : from_3(db, read_only, err);
    if (!rc && !read_only)
        rc = db_exec(db, upgrading, err, "PRAGMA user_version=%d", FORMAT);
    rc = rc ? rc : db_exec(db, upgrading, err, "COMMIT");
    if (rc && !sqlite3_get_autocommit(db->sql))
        sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}
