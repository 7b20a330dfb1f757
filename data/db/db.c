/* db.c: connects to a run's database, runs statements, and turns SQLite's errors into sentences. */
#include "data/db/db.h"

#include "data/file/file.h"
#include "data/db/real_bits.h"

#include <assert.h>
#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- sentences ---- */

static int too_long(const char *path, char *out, size_t size)
{
    size_t n = strlen(path);

    if (n > DB_PATH)
        snprintf(out, size, "a path of %zu bytes is too long, %d are the most: choose a shorter "
                 "one", n, DB_PATH);
    return n > DB_PATH;
}

/* What of a database this process may not read or write, or why its name cannot be opened at all;
 * "": it is something else. SQLite names the database alone. */
static const char *db_denied(const char *path, char *out, size_t size)
{
    static const char *const parts[] = { "", "-wal", "-shm" };
    static const char *const words[] = { "read", "written" };
    char                    *folder = file_folder(path);
    struct stat              st;
    int                      denied = 0, how = R_OK;

    for (int w = 0; w < 2 && !denied; w++) {
        how = w ? R_OK | W_OK : R_OK;
        snprintf(out, size, "%s", folder ? folder : "");
        denied = w && !stat(out, &st) && faccessat(AT_FDCWD, out, W_OK | X_OK, AT_EACCESS);
        for (size_t i = 0; !denied && i < sizeof parts / sizeof *parts; i++) {
            snprintf(out, size, "%s%s", path, parts[i]);
            denied = !stat(out, &st) && faccessat(AT_FDCWD, out, how, AT_EACCESS);
        }
    }
    int    why = errno;
    size_t n = denied ? strlen(out) : 0;

    free(folder);
    out[n] = '\0';
    if (denied)
        snprintf(out + n, size - n, " may not be %s: %s", words[how != R_OK], strerror(why));
    else
        too_long(path, out, size);
    return out;
}

int db_beside_fail(const char *path, int rc, struct err *err)
{
    char why[128];

    if (too_long(path, why, sizeof why))
        return err_set(err, rc, "%s cannot be opened: %s", path, why);
    char *journal = file_path(err, "%s-probe", path);
    int   fd = journal ? open(journal, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600) : -1;

    if (fd >= 0) {
        close(fd);
        unlink(journal);
    } else if (journal && errno != EEXIST) {
        int         cannot = errno;
        char       *folder = file_folder(path);
        const char *fixed = cannot == EPERM && folder ? file_fixed(folder) : NULL;

        rc = fixed ? err_set(err, -cannot, "%s %s", folder, fixed)
                   : err_set(err, -cannot, "make %s: %s", journal, strerror(cannot));
        free(folder);
    }
    free(journal);
    return rc;
}

static int open_fail(const struct db *db, const char *doing, int os, const char *why,
                     struct err *err)
{
    char denied[PATH_MAX + 128] = "";
    int  rc = err_set(err, os ? -os : -ENOENT, "%s cannot be opened (while %s): %s", db->path,
                      doing, *db_denied(db->path, denied, sizeof denied) ? denied
                             : os ? strerror(os) : why);

    return rc == -ENOENT && !access(db->path, F_OK) ? db_beside_fail(db->path, rc, err) : rc;
}

/* Returns the errno of a failed read of the database or its log; 0: no read failed. SQLite reports
 * some of them as damage (EIO, ENXIO, ERANGE), and its check of a database all of them. */
static int unread(struct db *db)
{
    static const int which[] = { SQLITE_FCNTL_FILE_POINTER, SQLITE_FCNTL_JOURNAL_POINTER };

    for (size_t i = 0; i < sizeof which / sizeof *which; i++) {
        sqlite3_file *f = NULL;
        int           e = 0;

        if (!sqlite3_file_control(db->sql, "main", which[i], &f) && f && f->pMethods &&
            !f->pMethods->xFileControl(f, SQLITE_FCNTL_LAST_ERRNO, &e) &&
            (file_is_unread(-e) || e == ENXIO || e == ERANGE))
            return e;
    }
    return 0;
}

int db_read_check(struct db *db, const char *doing, struct err *err)
{
    int e = unread(db);

    return e ? err_set(err, -EIO, "%s could not be read (while %s): %s", db->path, doing,
                       strerror(e))
             : 0;
}

int db_fail(struct db *db, const char *doing, struct err *err)
{
    int         left = errno; // SQLite loses it if a COMMIT fails
    const char *p = db->path, *why = db->sql ? sqlite3_errmsg(db->sql) : "out of memory";
    int         code = db->sql ? sqlite3_extended_errcode(db->sql) : SQLITE_NOMEM;
    int         os = db->sql ? sqlite3_system_errno(db->sql) : 0;
    char        denied[PATH_MAX + 128] = "";

    if (!os && code == SQLITE_IOERR_WRITE)
        os = left;
    switch (code & 0xff) {
    case SQLITE_FULL:
        return err_set(err, -ENOSPC, "%s: the disk is full (while %s); free some space and run it "
                       "again; a run that was made goes on with --resume", p, doing);
    case SQLITE_CORRUPT:
        if ((os = db_read_check(db, doing, err)))
            return os;
        return err_set(err, -EBADMSG, "%s: the database is damaged (while %s: %s)", p, doing, why);
    case SQLITE_NOTADB:
        return err_misuse(err, "%s is not a SQLite database; expected the run.db of a siTrain run",
                          p);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return db_wait_fail(&db->wait, doing, err);
    case SQLITE_PROTOCOL: // SQLite has tried for ten seconds
        return err_set(err, -ENOLCK, "%s: no lock was to be had (while %s): another program holds "
                       "it, or the kernel has no memory for one; try again", p, doing);
    case SQLITE_READONLY:
        return err_set(err, -EROFS, "%s cannot be written (while %s): %s", p, doing,
                       *db_denied(p, denied, sizeof denied) ? denied : why);
    case SQLITE_CANTOPEN:
        return open_fail(db, doing, os, why, err);
    case SQLITE_NOMEM:
        return err_set(err, -ENOMEM, "%s: out of memory (while %s)", p, doing);
    case SQLITE_IOERR:
        if (code == SQLITE_IOERR_SHMMAP && (os == EINVAL || os == ENODEV || os == EOPNOTSUPP))
            return err_set(err, -EOPNOTSUPP, "%s: its file system has no memory that processes "
                           "share (mmap), which the database needs: put the run on another one, or "
                           "mount this one otherwise (9p: cache=mmap; FUSE: without direct_io)", p);
        return err_set(err, os ? -os : -EIO, "%s: %s failed: %s%s%s", p, doing, why, os ? ": " : "",
                       os ? strerror(os) : "");
    default:
        return err_set(err, -EIO, "%s: %s failed: %s", p, doing, why);
    }
}

/* ---- statements ---- */

static sqlite3_stmt *db_known(struct db *db, const char *text)
{
    int i = 0;

    while (i < DB_STATEMENTS && db->known[i].text && db->known[i].text != text)
        i++;
    assert(i < DB_STATEMENTS);
    if (!db->known[i].text &&
        !sqlite3_prepare_v3(db->sql, text, -1, SQLITE_PREPARE_PERSISTENT, &db->known[i].stmt, NULL))
        db->known[i].text = text;
    return db->known[i].stmt;
}

static int db_bind(sqlite3_stmt *st, const char *types, va_list ap)
{
    int rc = SQLITE_OK;

    for (int i = 1; types[i - 1] && !rc; i++)
        switch (types[i - 1]) {
        case 'i':
            rc = sqlite3_bind_int(st, i, va_arg(ap, int));
            break;
        case 'u':
            rc = sqlite3_bind_int64(st, i, va_arg(ap, sqlite3_int64));
            break;
        case 'd':
            rc = sqlite3_bind_double(st, i, va_arg(ap, double));
            break;
        default:
            rc = sqlite3_bind_text(st, i, va_arg(ap, const char *), -1, SQLITE_STATIC);
        }
    return rc;
}

static int stepped(struct db *db, int got, const char *doing, struct err *err)
{
    return got == SQLITE_ROW ? 1 : got == SQLITE_DONE ? 0 : db_fail(db, doing, err);
}

static int row_v(struct db *db, sqlite3_stmt **row, const char *text, const char *doing,
                 struct err *err, const char *types, va_list ap)
{
    sqlite3_stmt *st = *row = db_known(db, text);

    return stepped(db, !st || db_bind(st, types, ap) ? SQLITE_ERROR : sqlite3_step(st), doing, err);
}

int db_run_v(struct db *db, const char *text, const char *doing, struct err *err,
             const char *types, va_list ap)
{
    sqlite3_stmt *st;
    int           rc = row_v(db, &st, text, doing, err, types, ap);

    sqlite3_reset(st);
    return rc;
}

int db_run(struct db *db, const char *text, const char *doing, struct err *err, const char *types,
           ...)
{
    va_list ap;

    va_start(ap, types);
    int rc = db_run_v(db, text, doing, err, types, ap);

    va_end(ap);
    return rc;
}

int db_row(struct db *db, sqlite3_stmt **row, const char *text, const char *doing, struct err *err,
           const char *types, ...)
{
    va_list ap;

    va_start(ap, types);
    int got = row_v(db, row, text, doing, err, types, ap);

    va_end(ap);
    return got;
}

int db_next(struct db *db, sqlite3_stmt *row, const char *doing, struct err *err)
{
    return stepped(db, sqlite3_step(row), doing, err);
}

int db_put(struct db *db, const char *text, const char *doing, struct err *err, const char *types,
           const uint64_t *row)
{
    sqlite3_stmt *st = db_known(db, text);
    int           rc = st ? SQLITE_OK : SQLITE_ERROR;

    for (int i = 0; types[i] && !rc; i++)
        rc = types[i] == 'd' ? sqlite3_bind_double(st, i + 1, bits_real(row[i]))
                             : sqlite3_bind_int64(st, i + 1, (sqlite3_int64)row[i]);
    rc = rc || sqlite3_step(st) != SQLITE_DONE ? db_fail(db, doing, err) : 0;
    sqlite3_reset(st);
    return rc;
}

int db_exec(struct db *db, const char *doing, struct err *err, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    char *sql = sqlite3_vmprintf(fmt, ap);
    int   rc = !sql ? err_set(err, -ENOMEM, "%s: out of memory (while %s)", db->path, doing)
               : sqlite3_exec(db->sql, sql, NULL, NULL, NULL) ? db_fail(db, doing, err) : 0;

    va_end(ap);
    sqlite3_free(sql);
    return rc;
}

int db_number(struct db *db, const char *text, int64_t *out)
{
    sqlite3_stmt *st = NULL;
    int           rc = sqlite3_prepare_v2(db->sql, text, -1, &st, NULL);

    rc = rc ? rc : sqlite3_step(st);
    *out = rc == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
    sqlite3_finalize(st);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int db_check_table(struct db *db, const char *table, struct err *err)
{
    sqlite3_stmt *st = NULL;
    char         *sql = sqlite3_mprintf("PRAGMA integrity_check(%Q)", table);
    const char   *found;
    int           rc = 0;

    if (!sql || sqlite3_prepare_v2(db->sql, sql, -1, &st, NULL) || sqlite3_step(st) != SQLITE_ROW)
        rc = db_fail(db, "checking a table", err);
    else if (strcmp(found = (const char *)sqlite3_column_text(st, 0), "ok") &&
             !(rc = db_read_check(db, "checking a table", err)))
        rc = err_set(err, -EBADMSG, "%s: table %s is damaged: %s", db->path, table, found);
    sqlite3_finalize(st);
    sqlite3_free(sql);
    return rc;
}

/* ---- connecting ---- */

/* A path as a URI: all except plain letters becomes %XX. */
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

/* 0, or an errno. */
static int log_stat(const struct db *db, struct stat *st)
{
    char *log = file_path(NULL, "%s-wal", db->path);
    int   e = !log ? ENOMEM : stat(log, st) ? errno : 0;

    free(log);
    return e;
}

int db_has_log(const struct db *db)
{
    struct stat st;

    return !log_stat(db, &st) && st.st_size > 0;
}

void db_log_note(struct db *db)
{
    struct stat st;

    // another file may have come just now: db_log_is tells, once it is known which one is the log
    if (!log_stat(db, &st) && (!db->log.st_ino || file_same(&st, &db->log)))
        db->log = st;
}

enum db_log db_log_is(const struct db *db)
{
    struct stat st;
    int         e = db->log.st_ino ? log_stat(db, &st) : ENOMEM;

    if (e)
        return e == ENOENT ? DB_LOG_GONE : DB_LOG_SAME;
    if (!file_same(&st, &db->log))
        return DB_LOG_OTHER;
    return st.st_size < db->log.st_size ? DB_LOG_CUT : DB_LOG_SAME;
}

/* Opens the file without its log, of which SQLite then knows nothing. */
static int open_alone(struct db *db)
{
    char *uri = immutable_uri(db->path);
    int   rc = uri ? sqlite3_open_v2(uri, &db->sql, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL)
                   : SQLITE_NOMEM;

    free(uri);
    return rc;
}

/* Opens it with its log, but keeps the log's index in memory, because no file (run.db-shm) may be
 * made. SQLite does this for an exclusive user, and assumes one if there are no locks; the caller
 * ensures that. */
static int open_with_log(struct db *db)
{
    int rc = sqlite3_open_v2(db->path, &db->sql, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX,
                             "unix-none");

    if (rc)
        return rc;
    sqlite3_db_config(db->sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    return sqlite3_exec(db->sql, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA temp_store=MEMORY", NULL,
                        NULL, NULL);
}

static int db_probe(struct db *db)
{
    int64_t tables;

    sqlite3_extended_result_codes(db->sql, 1);
    return db_number(db, "SELECT count(*) FROM sqlite_master", &tables);
}

/* Tries again for a moment if the database is there and SQLite finds no log to open: by FUSE, one
 * that another path has removed seems to be there for a second. */
static int probe_again(struct db *db, int rc)
{
    enum { TRIES = 15, TRY_US = 100000 };

    for (int i = 0; i < TRIES && (rc & 0xff) == SQLITE_CANTOPEN &&
                    sqlite3_system_errno(db->sql) == ENOENT && !access(db->path, F_OK); i++) {
        usleep(TRY_US);
        rc = db_probe(db);
    }
    return rc;
}

static int cannot_write(struct db *db, int rc)
{
    int os = sqlite3_system_errno(db->sql);

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

/* Refuses a rollback journal. A run's database has a log instead, so another program left it, or it
 * was copied here. SQLite would write its pages into the database, whosever they are, and remove
 * it. One whose first byte is 0 is not used. */
static int journal_check(const struct db *db, struct err *err)
{
    char *path = file_path(err, "%s-journal", db->path), first = 0;
    int   fd = path ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    int   rc = path ? 0 : -ENOMEM;

    if (fd >= 0 && pread(fd, &first, 1, 0) == 1 && first)
        rc = err_misuse(err, "%s is not of siTrain, and SQLite would write it into %s: if a "
                        "program was killed while it changed that one, open that with sqlite3 "
                        "once; otherwise move the file elsewhere", path, db->path);
    file_close(fd);
    free(path);
    return rc;
}

/* Whether a reader would leave files behind that the database's owner cannot write, or that nobody
 * may make there. SQLite makes the log and its index if they are missing. A reader that may not
 * write the database, or is killed, does not remove them. */
static int leaves_files(const struct db *db)
{
    struct stat st;
    char       *index = file_path(NULL, "%s-shm", db->path);
    int         makes = !index || stat(index, &st) || log_stat(db, &st);

    free(index);
    return db->alone || (makes && faccessat(AT_FDCWD, db->path, W_OK, AT_EACCESS));
}

/* SQLite gives the files that it makes next to the database its mode. They need its group, too: if
 * this process is killed, others of the group could not write them. */
static void share_with_group(const struct db *db)
{
    static const char *const made[] = { "-wal", "-shm" };

    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        struct stat st;
        char       *path = file_path(NULL, "%s%s", db->path, made[i]);

        if (path && !lstat(path, &st) && st.st_uid == geteuid() && st.st_gid != db->st.st_gid)
            (void)!lchown(path, (uid_t)-1, db->st.st_gid); // if it may
        free(path);
    }
}

/* Opens it. A reader, too, opens for writing if the file allows it: a read-only connection would
 * leave -shm and -wal behind. */
int db_open(struct db *db, int read_only, struct err *err)
{
    int rc = journal_check(db, err);

    db->wait.path = db->path;
    if (rc || (read_only && leaves_files(db)))
        return rc ? rc : 1;
    rc = sqlite3_open_v2(db->path, &db->sql, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (!rc) {
        sqlite3_busy_handler(db->sql, db_wait_busy, &db->wait);
        rc = probe_again(db, db_probe(db));
    }
    if (rc && read_only && db->sql && cannot_write(db, rc))
        return 1;
    if (!rc && !read_only && sqlite3_db_readonly(db->sql, "main"))
        return err_set(err, -EROFS,
                       "%s may not be written here: it is read-only, or another user's", db->path);
    db->read_only = read_only;
    int moved = 0;
    if (!rc && stat(db->path, &db->st))
        return err_set(err, -errno, "%s cannot be read: %s", db->path, strerror(errno));
    if (!rc && !sqlite3_file_control(db->sql, "main", SQLITE_FCNTL_HAS_MOVED, &moved) && moved)
        return err_set(err, -ENOENT, "%s was removed, renamed or replaced while it was being "
                       "opened, or could not be looked at: run the command again", db->path);
    if (rc)
        return db_fail(db, "opening", err);
    share_with_group(db);
    return 0;
}

int db_is_named(const struct db *db)
{
    struct stat st;
    int         moved; // not used: it is 1, too, if SQLite could not look

    if (sqlite3_file_control(db->sql, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_NOTFOUND)
        return 1; // no file of this system: the power-cut machine's (tests/crash)
    if (stat(db->path, &st))
        return file_is_absent(errno) ? 0 : -errno;
    return file_same(&st, &db->st);
}

/* What the file is now. 0: it cannot be told. A second descriptor would drop SQLite's locks as it
 * is closed, so SQLite reads. */
static int file_now(struct db *db, struct db_file *out)
{
    sqlite3_file *file = NULL;
    struct stat   st;

    if (stat(db->path, &st) ||
        sqlite3_file_control(db->sql, "main", SQLITE_FCNTL_FILE_POINTER, &file) || !file)
        return 0;
    *out = (struct db_file){ 1, st.st_mtim, st.st_size, { 0 } };
    int rc = file->pMethods->xRead(file, out->head, DB_HEAD, 0);
    return !rc || rc == SQLITE_IOERR_SHORT_READ;
}

void db_note(struct db *db)
{
    db->file.noted = file_now(db, &db->file);
}

int db_is_noted(struct db *db)
{
    struct db_file *was = &db->file, now;
    struct stat     st;

    if (!was->noted || stat(db->path, &st) ||
        (st.st_size == was->bytes && st.st_mtim.tv_sec == was->time.tv_sec &&
         st.st_mtim.tv_nsec == was->time.tv_nsec))
        return 1;
    // a network file system may change its mind about the time
    if (!file_now(db, &now) || now.bytes != was->bytes || memcmp(now.head, was->head, DB_HEAD))
        return 0;
    *was = now;
    return 1;
}

int db_open_apart(struct db *db, int alone, struct err *err)
{
    sqlite3_close(db->sql);
    db->sql = NULL;
    int rc = alone || !db_has_log(db) ? open_alone(db) : open_with_log(db);

    rc = rc ? rc : db_probe(db);
    return rc ? db_fail(db, "opening", err) : 0;
}

void db_close(struct db *db)
{
    for (int i = 0; i < DB_STATEMENTS && db->known[i].text; i++)
        sqlite3_finalize(db->known[i].stmt);
    memset(db->known, 0, sizeof db->known);
    if (db->sql &&
        ((db->read_only && db_has_log(db)) || db_is_named(db) <= 0 || !db_is_noted(db)))
        sqlite3_db_config(db->sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_close_v2(db->sql);
    db->sql = NULL;
}
