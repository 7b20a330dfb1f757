/* runlog_db.h: what the files of runlog share, and private to them (runlog.c, runlog_db.c,
 * runlog_wait.c, runlog_rows.c, runlog_check.c): whoever else writes to a run's database does it
 * through runlog.h, where a row cannot be written without its sum, or brings tables of its own
 * (runlog_db). */
#ifndef DATA_DB_RUNLOG_DB_H
#define DATA_DB_RUNLOG_DB_H

#include "data/db/runlog.h"
#include "data/db/wal.h"

#include <sqlite3.h>

/* The statements; their texts are in runlog_db.c. */
enum runlog_sql {
    SQL_BEGIN,
    SQL_COMMIT,
    SQL_SET,
    SQL_GET,
    SQL_NOTICE,
    SQL_STEP,
    SQL_STEP_DONE,
    SQL_EVAL,
    SQL_DEVICE,
    SQL_SPAN,
    SQL_TRAFFIC,
    SQL_SPANS_DELETE,
    SQL_TRAFFIC_DELETE,
    SQL_WHOLE_ADD,
    SQL_WHOLE_DELETE,
    SQL_WHOLE_NEXT,
    SQL_SPANS_LAST,
    SQL_SPANS_FOLD,
    SQL_SPANS_DROP,
    SQL_TRAFFIC_LAST,
    SQL_TRAFFIC_FOLD,
    SQL_TRAFFIC_DROP,
    SQLS
};

struct runlog {
    sqlite3      *db;
    sqlite3_stmt *stmt[SQLS]; // NULL until its first use
    int           lock_fd;    // -1: not held
    int           writes;     // it is held against everybody
    char boot[WAL_BOOT]; // of the machine, when who wrote last opened the database; "": not known
    uint64_t      busy_ns;    // since when another program is waited for
    int           told;       // that was said
    int           given_up;   // -errno: it is not waited for any more
    char         *path;
};

/* ---- runlog_db.c ---- */

/* Statements, with a letter of `types` for each value: i sqlite3_int64, d double, t text (const
 * char *). runlog_db_run: one that gives no rows. runlog_db_row: step to the first row: 1, or 0 if
 * there is none; the caller resets the statement when it has read the row. */
int runlog_db_run(struct runlog *log, enum runlog_sql id, const char *doing, struct err *err,
                  const char *types, ...);
int runlog_db_row(struct runlog *log, enum runlog_sql id, const char *doing, struct err *err,
                  const char *types, ...);

/* Open the database of log->path; or make one of the empty file there, with all tables. After an
 * error log->db may be open. */
int runlog_db_connect(struct runlog *log, int read_only, struct err *err);
/* For reading, without a write to any file; alone: as if there were no log. What writes must be
 * kept away before and meanwhile (runlog_lock_reading): there are no locks of SQLite's. */
int runlog_db_connect_apart(struct runlog *log, int alone, struct err *err);
int runlog_db_create(struct runlog *log, int durable, struct err *err);
/* Refuse what no run of this version looks like. */
int runlog_db_check_format(struct runlog *log, struct err *err);
int runlog_db_set_durable(struct runlog *log, int durable, struct err *err);
/* Whether the rows of `table` (steps, evals) have a sum; add the column where they have none. */
int runlog_db_has_sums(struct runlog *log, const char *table);
int runlog_db_add_sums(struct runlog *log, struct err *err);

/* ---- runlog_wait.c ---- */

/* SQLite waits as runlog_set_wait says. */
void runlog_wait_install(struct runlog *log);
/* The sentence of a wait that ended without the lock; returns its -errno. */
int runlog_wait_fail(struct runlog *log, const char *doing, struct err *err);

/* ---- runlog_rows.c: the checksum of a row ---- */

uint32_t runlog_setting_sum(const char *key, const char *value);
/* What a step computed; seconds and peak_rss, which are known later and differ each time, are left
 * out. */
uint32_t runlog_step_sum(const struct runlog_step *s);
uint32_t runlog_eval_sum(uint64_t step, const char *name, double value);

/* ---- runlog_check.c ---- */

int runlog_check_settings(struct runlog *log, struct err *err);

#endif
