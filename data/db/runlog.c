/* runlog.c: opens, creates and closes the run's database, and detects and cuts a damaged log
 * (run.db-wal).
 *
 * SQLite reads a log up to the first frame whose checksum differs, and discards the rest. That is
 * right for a frame torn by a power cut. But a flipped byte in the middle, or a removed log, would
 * silently lose every later commit. So commits are counted: in run.db, within the transaction
 * (table commits), and afterwards in run.lock. If run.db shows fewer than run.lock knows, some are
 * lost. This is checked before SQLite may write.
 *
 * What remains then is what SQLite reads, the commits up to the damage, if no page of a later one
 * is in run.db; or run.db alone, if a checkpoint took in all commits. run.lock also records when
 * checkpoints began and ended. */
#include "data/db/runlog_parts.h"

#include "data/base/crc32c.h"
#include "data/file/file.h"
#include "data/base/round.h"
#include "data/db/schema.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static struct runlog *log_new(const char *path, struct err *err)
{
    struct runlog *log = calloc(1, sizeof *log);

    if (log) {
        // SQLite would take "file:..." for a URI
        log->db.path = log->lock.db_path =
            strncmp(path, "file:", 5) ? strdup(path) : file_path(err, "./%s", path);
        log->lock.path = file_beside(path, "run.lock", NULL);
        log->lock.fd = -1;
    }
    if (log && log->db.path && log->lock.path)
        return log;
    runlog_close(log);
    err_set(err, -ENOMEM, "%s: out of memory", path);
    return NULL;
}

/* The path of one of SQLite's files next to the database. Caller frees. */
static char *beside(const struct runlog *log, const char *tail, struct err *err)
{
    return file_path(err, "%s%s", log->db.path, tail);
}

static const char *const tails[] = { "", "-wal", "-shm", "-journal" };
enum { TAILS = sizeof tails / sizeof *tails };

/* A log begins with two numbers of SQLite, of which one may be damaged, or with zeros where a power
 * cut came. */
static int is_log(const char *path)
{
    enum { MAGIC = 3, VERSION = 4, HEAD = 8 }; // a byte between them differs
    static const unsigned char known[HEAD] = { 0x37, 0x7f, 0x06, 0, 0x00, 0x2d, 0xe2, 0x18 };
    static const unsigned char none[HEAD];
    unsigned char              head[HEAD];
    int     fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t n = fd >= 0 ? pread(fd, head, sizeof head, 0) : 0;

    file_close(fd);
    return n <= 0 || !memcmp(head, known, size_min((size_t)n, MAGIC)) ||
           !memcmp(head, none, (size_t)n) ||
           (n == HEAD && !memcmp(head + VERSION, known + VERSION, HEAD - VERSION));
}

/* The log's index has whole pages; SQLite cuts one that nobody uses to 3 bytes. It is not opened:
 * closing it would drop SQLite's locks. */
static int is_index(const char *path)
{
    enum { CUT = 3, PAGE = 4096 };
    struct stat st;

    return stat(path, &st) || st.st_size <= CUT || st.st_size % PAGE == 0;
}

/* Refuses a file of somebody's under a name that SQLite takes for its own: it would write over it,
 * and remove it. A log whose first bytes never reached the drive before a power cut looks the same;
 * it has no commit. */
static int foreign_check(const char *path, const char *tail, struct err *err)
{
    if (strcmp(tail, "-wal") ? strcmp(tail, "-shm") || is_index(path) : is_log(path))
        return 0;
    return err_misuse(err, "%s is not of siTrain, or a power cut left other bytes in it, and "
                      "SQLite would write over it: move it elsewhere", path);
}

/* Checks the names that SQLite will open: it would block on a pipe, and write through a link. */
static int names_check(const struct runlog *log, int written, struct err *err)
{
    int rc = file_check_own(log->lock.path, written, err);

    for (int i = 0; i < TAILS && !rc; i++) {
        char *path = beside(log, tails[i], err);

        int is_shm = !strcmp(tails[i], "-shm"); // which SQLite writes for a reader, too

        rc = path ? file_check_own(path, written || is_shm, err) : -ENOMEM;
        rc = rc ? rc : foreign_check(path, tails[i], err);
        free(path);
    }
    return rc;
}

/* ---- lost commits ---- */

struct shown {
    int64_t commits;
    int64_t taken; // commits that a checkpoint had taken into run.db when the last one was made; 0
                   // if an older version made the run
    int64_t id;    // checksum of the run's id; 0: not stored
    int64_t snapshot; // it is a snapshot's
};

/* Reads a number from run.db. It is 0 if there is no such table or column. */
static int shown_number(struct db *db, const char *text, int64_t *out, struct err *err)
{
    return db_number(db, text, out) > SQLITE_ERROR ? db_fail(db, "looking at its commits", err) : 0;
}

/* Whether the drive failed. Any other error says that SQLite cannot read what is there. */
static int is_unread(int rc) { return rc == -EIO || rc == -ESTALE; }

/* Looks at what run.db shows, alone or with what SQLite reads of its log. Writes nothing. Returns
 * -errno if it cannot be read at all. Only an error of is_unread has a sentence: then nothing is
 * known of what run.db contains. */
static int shown_read(const char *path, int alone, struct shown *out, struct err *err)
{
    struct db  db = { .path = (char *)path };
    struct err why = { 0 };
    int64_t    tables = 0;
    int        rc = db_open_apart(&db, alone, &why);

    *out = (struct shown){ 0 };
    // somebody's view of such a name is not read: it may have rows without end
    rc = rc ? rc
            : shown_number(&db, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND"
                           " name IN ('commits', 'runs')", &tables, &why);
    if (!rc && tables == 2) { // without its tables there is no commit
        rc = shown_number(&db, "SELECT n FROM commits", &out->commits, &why);
        int damaged = rc;
        rc = rc ? rc : shown_number(&db, "SELECT coalesce(taken, 0) FROM commits", &out->taken,
                                    &why);
        rc = is_unread(rc) || damaged ? rc
             : shown_number(&db, "SELECT crc FROM runs WHERE key = 'id'", &out->id, &why);
        rc = is_unread(rc) || damaged ? rc
             : shown_number(&db, "SELECT count(*) FROM runs WHERE key = 'snapshot'",
                            &out->snapshot, &why);
        rc = is_unread(rc) ? rc : damaged; // opening it reports damage that the others find
    }
    db_close(&db);
    if (is_unread(rc) && err)
        *err = why;
    return rc;
}

/* Returns -EEXIST and a sentence if run.db and its log are of two runs: with the log, run.db has
 * another id than alone. No --repair can mend that. Returns -EBADMSG and a sentence if they are of
 * two times: with the log, run.db shows fewer commits than alone, or it lacks commits that a
 * checkpoint took into it, as the log itself and run.lock say. SQLite would mix both, because each
 * is whole. If somebody removes run.lock, a process may commit between two looks; a third one shows
 * its commit. */
static int times_check(const struct runlog *log, const struct shown *both, struct err *err)
{
    const struct run_lock *l = &log->lock;
    const char            *p = log->db.path;
    struct shown           alone, now;
    int                    rc = db_has_log(&log->db) ? shown_read(p, 1, &alone, err) : -ENOENT;

    if (rc)
        return is_unread(rc) ? rc : 0;
    if (alone.id && both->id && alone.id != both->id)
        return err_set(err, -EEXIST, "%s and its log %s-wal are of two runs; nothing was changed; "
                       "bring back the one that was there, or, if run.db is the right one, move "
                       "the log away", p, p);
    if (((alone.commits <= both->commits || !both->commits) && both->taken <= alone.commits &&
         (!l->known || l->taken <= (uint64_t)alone.commits)) ||
        (rc = shown_read(p, 0, &now, err)) || now.commits != both->commits)
        return is_unread(rc) ? rc : 0;
    return err_set(err, -EBADMSG,
                   "%s ends with commit %" PRIi64 " and its log %s-wal %s: they are of different "
                   "times, as if a backup restored only one of them; nothing was changed; restore "
                   "both files from one time, %s", p, alone.commits, p,
                   alone.commits > both->commits ? "is an older one's" : "begins after later ones",
                   alone.commits > both->commits
                       ? "or, if run.db is the right one, move its log away"
                       : "with the devices' states of that time");
}

/* Returns -EBADMSG and a sentence if commits are lost, or as times_check does. *shown: what is not
 * lost. Nobody may write meanwhile; another program's checkpoint may look like a loss for a
 * moment. */
static int commits_check(struct runlog *log, struct shown *shown, struct err *err)
{
    const struct run_lock *l = &log->lock;
    int                    rc = 0;

    for (int attempt = 0; attempt < 2; attempt++) {
        rc = shown_read(log->db.path, 0, shown, err);
        if (is_unread(rc))
            return rc;
        if (rc ? !l->known || rc != -EBADMSG || !db_has_log(&log->db)
               : !l->known || (uint64_t)shown->commits >= l->commits)
            // opening it reports the damage
            return rc ? 0 : times_check(log, shown, err);
        usleep(attempt ? 0 : 10000);
    }
    return err_set(err, -EBADMSG,
                   db_has_log(&log->db)
                       ? "%s-wal: the database's log is damaged, or it and run.db are of different "
                         "times: of %" PRIu64 " commits the last %" PRIu64 " cannot be read; "
                         "nothing was changed"
                       : "%s: of %" PRIu64 " commits the last %" PRIu64 " are missing: its log "
                         "(run.db-wal) is gone, or run.db is of another time (if you restored the "
                         "whole run and its devices from a backup, remove run.lock)", log->db.path,
                         l->commits, l->commits - (uint64_t)shown->commits);
}

/* ---- opening ---- */

static int count_pages(void *ctx, sqlite3 *sql, const char *name, int pages)
{
    (void)sql, (void)name;
    ((struct runlog *)ctx)->log_pages = pages;
    return SQLITE_OK;
}

static int set_wal(struct runlog *log, int durable, struct err *err)
{
    int rc = db_exec(&log->db, "switching to WAL", err, "PRAGMA journal_mode=WAL");

    sqlite3_wal_hook(log->db.sql, count_pages, log); // instead of SQLite's own checkpoints
    return rc ? rc : runlog_sync(log, durable ? RUNLOG_SYNC_ALL : RUNLOG_SYNC_NONE, err);
}

int runlog_sync(struct runlog *log, enum runlog_sync how, struct err *err)
{
    static const char *const words[] = { [RUNLOG_SYNC_NONE] = "OFF", [RUNLOG_SYNC_LATER] = "NORMAL",
                                         [RUNLOG_SYNC_ALL] = "FULL" };

    log->sync = how;
    return db_exec(&log->db, "setting synchronous", err, "PRAGMA synchronous=%s", words[how]);
}

int runlog_flush(struct runlog *log, struct err *err)
{
    sqlite3_file *wal = NULL;
    int           rc = SQLITE_OK;

    if (log->sync != RUNLOG_SYNC_LATER)
        return 0;
    rc = sqlite3_file_control(log->db.sql, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal);
    if (rc == SQLITE_OK && wal && wal->pMethods)
        rc = wal->pMethods->xSync(wal, SQLITE_SYNC_NORMAL);
    if (rc == SQLITE_OK)
        log->lock.flushed = log->lock.commits; // the next note says so
    return rc == SQLITE_OK ? 0 : err_set(err, -EIO, "%s-wal cannot be flushed", log->db.path);
}

uint32_t runlog_setting_sum(const char *key, const char *value)
{
    return crc32c(crc32c(0, key, strlen(key) + 1), value, strlen(value));
}

/* Checks the settings. A flipped bit, or a setting hidden by a damaged index, would make this
 * another run. Each setting has its checksum, and SQLite checks that table and index agree. The
 * table is small, however long the run. */
static int settings_check(struct runlog *log, struct err *err)
{
    static const char reading[] = "reading the settings";
    sqlite3_stmt     *st = NULL;
    int               rc = db_check_table(&log->db, "runs", err);

    if (rc)
        return rc;
    int got = db_row(&log->db, &st, "SELECT key, value, crc FROM runs", reading, err, "");
    for (; got > 0 && !rc; got = rc ? rc : db_next(&log->db, st, reading, err)) {
        const char *key = (const char *)sqlite3_column_text(st, 0);
        const char *value = (const char *)sqlite3_column_text(st, 1);

        if (!key || !value || sqlite3_column_int64(st, 2) != runlog_setting_sum(key, value))
            rc = err_set(err, -EBADMSG, "%s: the setting %s is damaged (checksum differs)",
                         log->db.path, key ? key : "of a row");
    }
    sqlite3_reset(st);
    return got;
}

/* Checks an open database: is it a run's, whole, and of a format that is read here? */
static int log_ready(struct runlog *log, struct err *err)
{
    schema_guard(&log->db);
    int rc = schema_check(&log->db, err);

    return rc ? rc : settings_check(log, err);
}

/* From here on, commits are counted in run.lock. Any part of an existing log may be in run.db. */
static int log_count(struct runlog *log, struct err *err)
{
    struct run_lock *l = &log->lock;
    int64_t          n, taken;

    if (db_number(&log->db, "SELECT n FROM commits", &n))
        return db_fail(&log->db, "counting its commits", err);
    // without a log all are in run.db; a killed process's checkpoint may not be durable
    if (log->left && db_number(&log->db, "SELECT coalesce(taken, 0) FROM commits", &taken))
        taken = 0;
    log->taken = (uint64_t)(log->left ? taken : n);
    // not raised: run.db may be another run's, and be taken away again before anything is committed
    if (l->flushed > (uint64_t)n)
        l->flushed = (uint64_t)n;
    if (!l->known || l->begun > (uint64_t)n)
        l->begun = (uint64_t)n;
    l->commits = (uint64_t)n;
    l->known = log->counts = 1;
    db_note(&log->db);
    int rc = run_lock_note(l);
    return rc ? err_set(err, rc, "write run.lock beside %s: %s", log->db.path, strerror(-rc)) : 0;
}

int runlog_create(struct runlog **out, const char *path, int durable, struct err *err)
{
    struct runlog *log = log_new(path, err);
    int            rc = log ? names_check(log, 1, err) : -ENOMEM, fd;

    rc = rc ? rc : run_lock_take(&log->lock, err);
    if (!rc) // SQLite opens an empty file as an empty database
        rc = file_open_own(path, O_CREAT | O_EXCL, &fd, err);
    if (rc)
        goto out;
    close(fd);
    log->lock.known = 0; // forget what was here before
    rc = db_open(&log->db, 0, err);
    rc = rc ? rc : set_wal(log, durable, err);
    rc = rc ? rc : schema_create(&log->db, err);
    if (!rc)
        schema_guard(&log->db);
    rc = rc ? rc : log_count(log, err);
    for (int i = 0; rc && i < TAILS; i++) {
        char *p = beside(log, tails[i], NULL);

        db_close(&log->db);
        if (p)
            unlink(p);
        free(p);
    }
out:
    if (rc)
        runlog_close(log);
    *out = rc ? NULL : log;
    return rc;
}

static int open_writing(struct runlog *log, int durable, struct err *err)
{
    struct shown shown;
    int          rc = run_lock_take(&log->lock, err);

    rc = rc ? rc : commits_check(log, &shown, err);
    log->left = db_has_log(&log->db);
    rc = rc ? rc : db_open(&log->db, 0, err);
    if (!rc && log->left) // if it does not fit, the first commit finds out
        sqlite3_db_config(log->db.sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    rc = rc ? rc : log_ready(log, err);
    rc = rc ? rc : set_wal(log, durable, err);
    return rc ? rc : log_count(log, err);
}

static int open_reading(struct runlog *log, struct err *err)
{
    struct shown shown = { 0 };
    int          taken = run_lock_is_taken(&log->lock, err);
    int          rc = taken ? taken < 0 ? taken : 0 : commits_check(log, &shown, err);

    log->db.alone = shown.snapshot != 0;
    rc = rc ? rc : db_open(&log->db, 1, err);
    if (rc > 0) {
        rc = runlog_lock_reading(log, err);
        rc = rc ? rc : db_open_apart(&log->db, 0, err);
    }
    rc = rc ? rc : log_ready(log, err);
    return rc ? rc : db_exec(&log->db, "opening", err, "PRAGMA query_only=1");
}

static int open_once(struct runlog **out, const char *path, int read_only, int durable,
                     struct err *err)
{
    struct stat st;

    *out = NULL;
    if (stat(path, &st))
        return err_set(err, -errno, "%s: %s", path,
                       errno == ENOENT ? "no such file; expected a run's database"
                                       : strerror(errno));
    if (S_ISREG(st.st_mode) && !st.st_size)
        return err_misuse(err, "%s is not a SQLite database; expected the run.db of a siTrain run",
                          path);
    struct runlog *log = log_new(path, err);
    int            rc = log ? names_check(log, !read_only, err) : -ENOMEM;

    if (!rc)
        rc = read_only ? open_reading(log, err) : open_writing(log, durable, err);
    if (rc)
        runlog_close(log);
    *out = rc ? NULL : log;
    return rc;
}

int runlog_open(struct runlog **out, const char *path, int read_only, int durable, struct err *err)
{
    int rc = open_once(out, path, read_only, durable, err);

    return read_only && file_is_unread(rc) ? open_once(out, path, 1, durable, err) : rc;
}

int runlog_refuse_begun(const char *dir, struct err *err)
{
    struct stat st;
    char       *lock = file_path(err, "%s/run.lock", dir), *db = file_path(err, "%s/run.db", dir);
    int         rc = !lock || !db ? -ENOMEM : 0;

    if (!rc && !stat(lock, &st) && stat(db, &st) && errno == ENOENT)
        rc = run_lock_has_numbers(lock)
                 ? err_misuse(err, "%s was a run, and its run.db is missing: bring it back, with "
                              "its log (run.db-wal) if it had one; then type this command again",
                              dir)
                 : err_misuse(err, "%s is not a run yet: the command that makes it is still at "
                              "work, or was ended too early; in the second case type that command "
                              "again, without --resume", dir);
    free(lock);
    free(db);
    return rc;
}

int runlog_open_in(struct runlog **out, const char *dir, int read_only, struct err *err)
{
    char *path = file_path(err, "%s/run.db", dir);
    int   rc = path ? runlog_open(out, path, read_only, 1, err) : -ENOMEM;

    free(path);
    return rc;
}

int runlog_open_run(struct runlog **out, const char *dir, struct err *err)
{
    char *path = file_path(err, "%s/run.db", dir);
    int   rc = path ? runlog_open(out, path, 1, 0, err) : -ENOMEM;

    if ((rc == -ENOENT || rc == -ENOTDIR) && !(rc = runlog_refuse_begun(dir, err)))
        rc = err_misuse(err, "%s is not a run: there is no %s", dir, path);
    free(path);
    return rc;
}

int runlog_since(struct runlog *log, uint64_t step, struct err *err)
{
    return schema_views_since(&log->db, step, err);
}

enum run_lock_holder runlog_writer(const char *path, char *who, size_t size)
{
    struct runlog       *log = log_new(path, NULL);
    enum run_lock_holder writes = log ? run_lock_holder(&log->lock, who, size) : HOLDER_NONE;

    runlog_close(log);
    return writes;
}

int runlog_lock_reading(struct runlog *log, struct err *err)
{
    return run_lock_read(&log->lock, err);
}

/* ---- what is left after damage ---- */

/* 0: no commit is lost. 1: something is left; *alone: run.db without its log; otherwise with what
 * SQLite reads of it. -EBADMSG: nothing is left. */
static int past_of(struct runlog *log, int *alone, struct err *err)
{
    const struct run_lock *l = &log->lock;
    struct shown           shown, without = { 0 };
    uint64_t               begun = l->begun;
    int                    rc = commits_check(log, &shown, err);

    *alone = 0;
    if (rc != -EBADMSG)
        return rc;
    int failed = shown_read(log->db.path, 1, &without, err);
    if (is_unread(failed))
        return failed;
    if (!failed && (uint64_t)without.commits > begun)
        begun = (uint64_t)without.commits; // another program's checkpoint
    *alone = begun > (uint64_t)shown.commits;
    return *alone && (l->taken != l->commits || (uint64_t)without.commits != l->commits) ? rc : 1;
}

int runlog_open_past(struct runlog **out, const char *path, int *past, struct err *err)
{
    struct runlog *log = log_new(path, err);
    int            rc = log ? runlog_lock_reading(log, err) : -ENOMEM, alone = 0;

    rc = rc ? rc : past_of(log, &alone, err);
    *past = rc > 0;
    rc = rc < 0 ? rc : db_open_apart(&log->db, alone, err);
    rc = rc ? rc : log_ready(log, err);
    if (*past && rc == -EINVAL)
        rc = err_set(err, -EBADMSG, "%s: before the damage of its log it was no run yet", path);
    if (rc)
        runlog_close(log);
    *out = rc ? NULL : log;
    return rc;
}

/* Keeps a copy of the whole log. */
static int log_keep(struct runlog *log, int alone, struct err *err)
{
    char       *wal = beside(log, "-wal", err), *kept = beside(log, "-wal.damaged", err);
    struct stat st;
    int         rc = wal && kept ? 0 : -ENOMEM;

    int there = !rc && !lstat(wal, &st);
    if (!rc && !there && errno != ENOENT)
        rc = err_set(err, -errno, "%s: %s", wal, strerror(errno));
    if (there && st.st_size) // otherwise a kill came after it was cut
        rc = file_copy(wal, kept, UINT64_MAX, err);
    if (!rc && alone && unlink(wal) && errno != ENOENT)
        rc = err_set(err, -errno, "remove %s: %s", wal, strerror(errno));
    free(wal);
    free(kept);
    return rc;
}

int runlog_whole(struct runlog *log, struct err *err)
{
    int rc = runlog_file_check(log, err);

    if (!rc &&
        sqlite3_wal_checkpoint_v2(log->db.sql, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL))
        rc = db_fail(&log->db, "taking in its log", err);
    if (!rc)
        db_note(&log->db);
    return rc;
}

int runlog_copy(struct runlog *log, const char *path, struct err *err)
{
    int fd, rc = file_open_own(path, O_CREAT | O_EXCL, &fd, err);

    if (rc)
        return rc;
    file_like(fd, runlog_path(log));
    close(fd); // SQLite fills an empty file
    rc = db_run(&log->db, "VACUUM INTO ?", "copying it", err, "t", path);
    if (rc == -ENOSPC)
        return err_set(err, rc, "write %s: %s", path, strerror(ENOSPC));
    return rc == -ENOENT ? db_beside_fail(path, rc, err) : rc;
}

int runlog_cut(const char *path, struct err *err)
{
    struct runlog *log = log_new(path, err);
    int            rc = log ? run_lock_take(&log->lock, err) : -ENOMEM, alone;

    rc = rc ? rc : past_of(log, &alone, err);
    if (rc <= 0)
        goto out;
    rc = log_keep(log, alone, err);
    rc = rc ? rc : db_open(&log->db, 0, err);
    rc = rc ? rc : runlog_whole(log, err);
    if (!rc) // only now: until here run.lock says that commits are lost
        rc = log_count(log, err);
out:
    runlog_close(log);
    return rc;
}

void runlog_close(struct runlog *log)
{
    if (!log)
        return;
    runlog_rollback(log);
    if (log->counts && log->db.sql && log->log_pages) // it has committed
        runlog_checkpoint(log);
    db_close(&log->db);
    run_lock_release(&log->lock);
    free(log->db.path);
    free(log->lock.path);
    free(log);
}

const char *runlog_path(const struct runlog *log) { return log->db.path; }
