/* runlog_commit.c: begins, commits and counts transactions (runlog.c), and makes checkpoints, which
 * copy the log into run.db. */
#include "data/db/runlog_parts.h"

#include <stdarg.h>
#include <unistd.h>

unsigned runlog_log_pages = 1000;

/* Returns -ESTALE if run.db has other commits than this process knows of: somebody else wrote. */
int runlog_unchanged(struct runlog *log, struct err *err)
{
    int64_t n;

    if (!log->counts)
        return 0;
    if (db_number(&log->db, "SELECT n FROM commits", &n))
        return db_fail(&log->db, "counting its commits", err);
    if ((uint64_t)n == log->lock.commits)
        return 0;
    return err_set(err, -ESTALE, "%s was written by another process while this one had it open: "
                   "nothing more is written; see what that process did, then go on with --resume",
                   log->db.path);
}

static int named_check(const struct runlog *log, struct err *err)
{
    int is = db_is_named(&log->db);

    if (is)
        return is < 0 ? file_unseen(log->db.path, is, err) : 0;
    return err_set(err, -ENOENT, "%s was removed, renamed or replaced while the run used it; bring "
                   "it back and go on with --resume", log->db.path);
}

/* Pages of this process would be mixed with the other's. */
int runlog_file_check(struct runlog *log, struct err *err)
{
    return db_is_noted(&log->db)
               ? 0
               : err_set(err, -ESTALE, "%s was written by another program while the run used it "
                         "(copied over, or a checkpoint of SQLite): nothing more is written; if it "
                         "was copied over, put the former one back (its log, %s-wal, is still "
                         "there); then go on with --resume", log->db.path, log->db.path);
}

/* What somebody removed or replaced is still open: it is taken into run.db now, and nothing is
 * lost. SQLite would do so as it closes, and remove whatever has the log's name by then. */
static int log_check(struct runlog *log, struct err *err)
{
    enum db_log is = db_log_is(&log->db);

    if (is == DB_LOG_SAME)
        return 0;
    if (is != DB_LOG_CUT)
        runlog_checkpoint(log);
    if (is != DB_LOG_GONE || log->taken == log->lock.commits)
        sqlite3_db_config(log->db.sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    return err_set(err, -ENOENT, "%s-wal was %s by another program while the run used it: nothing "
                   "more is written; go on with --resume", log->db.path,
                   is == DB_LOG_GONE ? "removed" : is == DB_LOG_CUT ? "cut" : "replaced");
}

/* Locks a replaced run.lock anew. It is written only if run.db still has its name: otherwise the
 * whole folder may have been replaced, and the lock file be another run's. */
static int lock_check(struct runlog *log, struct err *err)
{
    int fd, rc = run_lock_still(&log->lock, &fd, err);

    if (rc || fd < 0)
        return rc;
    rc = named_check(log, err);
    if (!rc)
        return run_lock_renew(&log->lock, fd, err);
    close(fd);
    return rc;
}

int runlog_unread(const struct runlog *log, struct err *err)
{
    if (log->unread && err)
        *err = log->why;
    return log->unread;
}

int runlog_begin(struct runlog *log, struct err *err)
{
    int rc = runlog_unread(log, err);

    rc = rc ? rc : named_check(log, err);
    rc = rc || !log->counts ? rc : lock_check(log, err);
    rc = rc ? rc : runlog_file_check(log, err);
    rc = rc ? rc : log_check(log, err);
    rc = rc ? rc : db_run(&log->db, "BEGIN IMMEDIATE", "beginning a transaction", err, "");
    if (!rc && (rc = runlog_unchanged(log, err)))
        runlog_rollback(log);
    return rc;
}

/* Count this commit. In a run of an older version the table has no such column yet. */
static int count(struct runlog *log, struct err *err)
{
    int rc = 0;

    if (sqlite3_table_column_metadata(log->db.sql, "main", "commits", "taken", NULL, NULL, NULL,
                                      NULL, NULL))
        rc = db_exec(&log->db, "committing", err,
                     "ALTER TABLE main.commits ADD COLUMN taken INTEGER");
    return rc ? rc : db_run(&log->db, "UPDATE commits SET n = n + 1, taken = ?", "committing", err,
                            "u", log->taken);
}

int runlog_commit(struct runlog *log, struct err *err)
{
    int rc = count(log, err);

    if (!rc && db_log_is(&log->db) == DB_LOG_CUT) // before this commit fills the gap with zeros
        rc = log_check(log, err);
    rc = rc ? rc : db_run(&log->db, "COMMIT", "committing", err, "");
    if (rc)
        return rc;
    if (log->left)
        sqlite3_db_config(log->db.sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    log->left = 0;
    db_log_note(&log->db);
    log->ends[++log->lock.commits % RUNLOG_ENDS] = log->log_pages;
    if (log->sync != RUNLOG_SYNC_LATER)
        log->lock.flushed = log->lock.commits;
    run_lock_note(&log->lock); // a failure only loses knowledge
    if ((unsigned)log->log_pages >= runlog_log_pages)
        runlog_checkpoint(log);
    return 0;
}

void runlog_rollback(struct runlog *log)
{
    if (log->db.sql && !sqlite3_get_autocommit(log->db.sql))
        sqlite3_exec(log->db.sql, "ROLLBACK", NULL, NULL, NULL);
}

int runlog_end(struct runlog *log, int rc, struct err *err)
{
    rc = rc ? rc : runlog_commit(log, err);
    if (rc)
        runlog_rollback(log);
    return rc;
}

int runlog_write(struct runlog *log, const char *text, const char *doing, struct err *err,
                 const char *types, ...)
{
    int     own = sqlite3_get_autocommit(log->db.sql), rc = own ? runlog_begin(log, err) : 0;
    va_list ap;

    va_start(ap, types);
    rc = rc ? rc : db_run_v(&log->db, text, doing, err, types, ap);
    va_end(ap);
    return own ? runlog_end(log, rc, err) : rc;
}

/* If somebody reads an earlier commit, the checkpoint goes as far as that. */
void runlog_checkpoint(struct runlog *log)
{
    struct run_lock *l = &log->lock;
    uint64_t         before = l->begun, reached = l->commits;
    int              pages, done, known = RUNLOG_ENDS;

    if (!db_is_noted(&log->db)) // the next transaction says so
        return;
    l->begun = l->commits;
    if (run_lock_note(l)) {
        l->begun = before;
        return;
    }
    int rc = sqlite3_wal_checkpoint_v2(log->db.sql, NULL, SQLITE_CHECKPOINT_PASSIVE, &pages, &done);
    db_note(&log->db);
    if (rc)
        return;
    if (done == pages)
        l->taken = log->taken = l->flushed = l->commits;
    while (reached > before && known && log->ends[reached % RUNLOG_ENDS] > done)
        reached--, known--;
    if (known)
        l->begun = reached;
    run_lock_note(l);
}
