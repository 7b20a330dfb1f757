/* db.h: a connection to a run's database, and the sentences for SQLite's errors. It is private
 * to data/db. The other rooms use runlog.h, and only data/db includes sqlite3.h. */
#pragma once

#include "data/db/db_wait.h"

#include <sqlite3.h>
#include <stdarg.h>
#include <sys/stat.h>

enum { DB_STATEMENTS = 48 };
/* The most bytes of a database's path: SQLite takes 512 with "-journal". */
enum { DB_PATH = 504 };

enum { DB_HEAD = 100 };
struct db_file { int noted; struct timespec time; int64_t bytes; unsigned char head[DB_HEAD]; };

struct db {
    sqlite3       *sql;
    char          *path;
    int            read_only;
    int            alone; // a reader makes nothing next to it: it is a snapshot's, perhaps not ours
    int            views; // this connection has siTrain's own
    struct stat    st; // the file that was opened
    struct stat    log; // its log after the last commit; st_ino 0: unknown
    struct db_file file; // the database without its log, as this process has written it last
    struct db_wait wait;
    struct { const char *text; sqlite3_stmt *stmt; } known[DB_STATEMENTS]; // by their texts' places
};

/* Writes the sentence of SQLite's last error during `doing`, a phrase. Returns the error as
 * -errno. */
int db_fail(struct db *db, const char *doing, struct err *err);
/* Call it when SQLite reports damage. Returns -EIO and a sentence if reading the file or its log
 * failed, so nothing is known of what they contain. Returns 0 if it is damage. */
int db_read_check(struct db *db, const char *doing, struct err *err);
/* rc, an error already set: SQLite reports of a file next to the database at `path` that it could
 * not make (no name is left for it, say) only that something is not there. If no file can be made
 * next to it now, that becomes the error. Returns it. */
int db_beside_fail(const char *path, int rc, struct err *err);

/* Statements are prepared once and found again by the address of their text, which must stay in
 * place. `types` has a letter for each value: i int, u uint64_t or int64_t, d double, t const
 * char *.
 *
 * db_run runs a statement without rows. db_row goes to the first row, *row, and db_next to each
 * next one. Both return 1, or 0 if there is no row, or -errno. The caller resets *row. */
int db_run(struct db *db, const char *text, const char *doing, struct err *err, const char *types,
           ...);
int db_run_v(struct db *db, const char *text, const char *doing, struct err *err,
             const char *types, va_list ap);
int db_row(struct db *db, sqlite3_stmt **row, const char *text, const char *doing, struct err *err,
           const char *types, ...);
int db_next(struct db *db, sqlite3_stmt *row, const char *doing, struct err *err);
int db_put(struct db *db, const char *text, const char *doing, struct err *err, const char *types,
           const uint64_t *row); // a value of type d is given as its real_bits
/* Runs statements that have no values and no rows, formatted as by sqlite3_mprintf. */
int db_exec(struct db *db, const char *doing, struct err *err, const char *fmt, ...);
/* Sets *out to the first number of the first row; 0 if there is no row. */
int db_number(struct db *db, const char *text, int64_t *out);

/* Returns 0 if SQLite finds a table and its indices intact. SQLite does not check values. */
int db_check_table(struct db *db, const char *table, struct err *err);

/* Opens db->path. A reader gets 1 without a sentence if nothing can be written next to it
 * (read-only media, another user's folder, a full disk), or if it may not write the database itself
 * and would leave files there. db_open_apart may then work. After an error db->sql may be open. */
int db_open(struct db *db, int read_only, struct err *err);
/* Opens db->path for reading, without writing any file and without SQLite's locks. The caller
 * keeps writers away from before the call until db_close. If `alone`, the log is ignored. */
int  db_open_apart(struct db *db, int alone, struct err *err);
/* Closes the connection. A reader leaves the log in place. So does a connection whose file has lost
 * its name, or may have, because SQLite would remove the log of the file that has the name now. */
void db_close(struct db *db);
int  db_has_log(const struct db *db);
/* Notes which file the log is, after a commit. db_log_is compares: another program may have
 * removed, replaced or cut it. Unless it was cut, it is still open, and no commit is lost yet. */
enum db_log { DB_LOG_SAME, DB_LOG_GONE, DB_LOG_OTHER, DB_LOG_CUT };
void        db_log_note(struct db *db);
enum db_log db_log_is(const struct db *db);
/* Returns 1 if the path still leads to the file that was opened, 0 if not, or -errno if that cannot
 * be found out. The path leads elsewhere if the file was moved, or if a snapshot of its file
 * system, with the same inode, took its place. */
int db_is_named(const struct db *db);
/* Notes what the database's file is, after this process has opened it or made a checkpoint: nothing
 * else writes it. db_is_noted returns whether that still holds. It does not if another program has
 * written into the file, as `cp` and `rsync --inplace` do. */
void db_note(struct db *db);
int  db_is_noted(struct db *db);
