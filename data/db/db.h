/* db.h: a connection to a run's database, and what is said when SQLite refuses. Private to data/db:
 * the other rooms use runlog.h, and nobody else sees sqlite3.h. */
#pragma once

#include "data/db/db_wait.h"

#include <sqlite3.h>
#include <stdarg.h>
#include <sys/stat.h>

enum { DB_STATEMENTS = 48 };

struct db {
    sqlite3       *sql;
    char          *path;
    int            read_only;
    struct stat    st; // of the file that was opened
    struct db_wait wait;
    struct { const char *text; sqlite3_stmt *stmt; } known[DB_STATEMENTS]; // by their texts' places
};

/* The sentence of SQLite's last error while `doing` something; returns its -errno. */
int db_fail(struct db *db, const char *doing, struct err *err);

/* Statements are prepared once and known by their text, which stays where it is. A letter of
 * `types` for each value: i int, u uint64_t or int64_t, d double, t const char *. db_run: one that
 * gives no rows. db_row: to the first row, *row, and db_next on from there: 1, or 0 if there is
 * none; the caller resets it. */
int db_run(struct db *db, const char *text, const char *doing, struct err *err, const char *types,
           ...);
int db_run_v(struct db *db, const char *text, const char *doing, struct err *err,
             const char *types, va_list ap);
int db_row(struct db *db, sqlite3_stmt **row, const char *text, const char *doing, struct err *err,
           const char *types, ...);
int db_next(struct db *db, sqlite3_stmt *row, const char *doing, struct err *err);
int db_put(struct db *db, const char *text, const char *doing, struct err *err, const char *types,
           const uint64_t *row); // a value of d as its real_bits
/* Statements without values or rows, as sqlite3_mprintf writes them. */
int db_exec(struct db *db, const char *doing, struct err *err, const char *fmt, ...);
int db_number(struct db *db, const char *text, int64_t *out); // of the first row, else 0; SQLite's

/* Whether a table and its indices are whole, as SQLite sees it: it does not look at values. */
int db_check_table(struct db *db, const char *table, struct err *err);

/* Open db->path. A reader gets 1, without a sentence, where nothing can be written beside it
 * (read-only media, another user's folder, a full disk): then db_open_apart may do. After an error
 * db->sql may be open. */
int db_open(struct db *db, int read_only, struct err *err);
/* For reading, without a write to any file and without SQLite's locks: who writes must be kept away
 * before and meanwhile. alone: as if there were no log. */
int  db_open_apart(struct db *db, int alone, struct err *err);
/* A reader leaves the log as it is. So does who has opened a file that is not the one of that name
 * any more: SQLite would remove the other one's log. */
void db_close(struct db *db);
int  db_has_log(const struct db *db);
/* Whether the name leads to the file that was opened: not if that was moved, or a snapshot of its
 * file system, in which it has the same inode, was put in its place. */
int db_is_named(const struct db *db);
