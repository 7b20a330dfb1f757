/* runlog.c: the run's database as one thing: whose it is (the lock), open, create, close,
 * transactions. What SQLite is told is in runlog_db.c, how another program is waited for in
 * runlog_wait.c, the rows are in runlog_rows.c, and what tells whether they are whole in
 * runlog_check.c.
 *
 * The lock is a file of its own beside the database (run.lock, flock): SQLite locks run.db itself
 * with fcntl, and a second descriptor on run.db closed by us would drop those. flock goes with the
 * process, so a killed run leaves nothing to clean up; the file stays, for removing it would let
 * two processes hold two different files of that name. It says who holds it, and, for wal.h, which
 * start of the machine it was when the database was last opened by who may write.
 *
 * Invariants, of all five files: statements are prepared once; every sentence names the file; the
 * caller owns transactions. */
#include "data/db/runlog_db.h"

#include "data/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the lock ---- */

/* Who holds it, as written there; "" where that is not known: one that only reads writes nothing,
 * and one that was killed did not take its words back. */
static void lock_holder(int fd, char *text, size_t size)
{
    char    host[64] = "", here[64] = "";
    long    pid;
    ssize_t n = pread(fd, text, size - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    gethostname(here, sizeof here - 1);
    if (sscanf(text, "process %ld on %63s", &pid, host) == 2 && !strcmp(host, here) &&
        kill((pid_t)pid, 0) && errno == ESRCH)
        *text = '\0';
}

static int lock_refuse(const char *path, const char *lock_path, int fd, struct err *err)
{
    char holder[128] = "";

    switch (errno) {
    case EWOULDBLOCK:
        lock_holder(fd, holder, sizeof holder);
        return err_set(err, -EBUSY, "%s: the run is in use by %s; wait for it to end or stop it",
                       path, *holder ? holder : "another process");
    case ENOLCK:
    case ENOSYS:
    case EOPNOTSUPP:
        return err_set(err, -ENOLCK,
                       "lock %s: %s: the file system has no locks, so a second process could not "
                       "be kept from this run; put it on a local one",
                       lock_path, strerror(errno));
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

/* What the file says of the machine's start. */
static void lock_read_boot(struct runlog *log, int fd)
{
    char        text[256];
    ssize_t     n = fd < 0 ? 0 : pread(fd, text, sizeof text - 1, 0);
    const char *line;

    text[n > 0 ? n : 0] = '\0';
    line = strchr(text, '\n');
    if (!line || sscanf(line, "\nboot %36[0-9a-f-]", log->boot) != 1)
        *log->boot = '\0';
}

/* Two lines: who holds the lock, "" for nobody, and the machine's start. */
static int lock_write(const struct runlog *log, int held)
{
    char host[64] = "", text[256] = "\n";
    int  n;

    gethostname(host, sizeof host - 1);
    if (held)
        snprintf(text, sizeof text, "process %ld on %s\n", (long)getpid(), host);
    n = (int)strlen(text);
    if (*log->boot)
        n += snprintf(text + n, sizeof text - (size_t)n, "boot %s\n", log->boot);
    errno = 0; // written over what is there, which takes no room on a full disk
    return pwrite(log->lock_fd, text, (size_t)n, 0) != n || ftruncate(log->lock_fd, n)
               ? (errno ? -errno : -EIO) : 0;
}

static int lock_take(struct runlog *log, struct err *err)
{
    char *path = lock_path_of(log);
    int   rc = 0;

    if (!path)
        return err_set(err, -ENOMEM, "%s: out of memory", log->path);
    rc = file_open_own(path, O_CREAT, &log->lock_fd, err);
    if (rc)
        goto out;
    if (flock(log->lock_fd, LOCK_EX | LOCK_NB)) {
        rc = lock_refuse(log->path, path, log->lock_fd, err);
        close(log->lock_fd);
        log->lock_fd = -1;
        goto out;
    }
    log->writes = 1;
    lock_read_boot(log, log->lock_fd);
    rc = lock_write(log, 1);
    if (rc)
        err_set(err, rc, "write %s: %s", path, strerror(-rc));
out:
    free(path);
    return rc;
}

/* For who only reads: -1 where it cannot be. */
static int lock_open(const char *path)
{
    uint64_t size;
    int      fd = -1;

    return file_open_read(path, &fd, &size, NULL) ? -1 : fd;
}

int runlog_lock_reading(struct runlog *log, struct err *err)
{
    char *path;
    int   fd, rc = 0;

    if (log->lock_fd >= 0)
        return 0;
    path = lock_path_of(log);
    if (!path)
        return err_set(err, -ENOMEM, "%s: out of memory", log->path);
    fd = lock_open(path);
    if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK)
        rc = lock_refuse(log->path, path, fd, err);
    if (rc)
        close(fd);
    else
        log->lock_fd = fd;
    lock_read_boot(log, log->lock_fd);
    free(path);
    return rc;
}

/* Does somebody write? */
static int lock_is_taken(struct runlog *log)
{
    char *path = lock_path_of(log);
    int   fd = path ? lock_open(path) : -1;
    int   taken = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;

    lock_read_boot(log, fd);
    if (fd >= 0)
        close(fd);
    free(path);
    return taken;
}

/* ---- open and close ---- */

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

// of the files that are SQLite's
static const char *const tails[] = { "", "-wal", "-shm", "-journal" };
enum { TAILS = sizeof tails / sizeof *tails };

/* SQLite opens whatever has these names: it would wait at a pipe, and write over what a link leads
 * to. */
static int names_check(const struct runlog *log, int written, struct err *err)
{
    char *p = lock_path_of(log);
    int   rc =
        p ? file_check_own(p, written, err) : err_set(err, -ENOMEM, "%s: out of memory", log->path);

    free(p);
    for (size_t i = 0; i < TAILS && !rc; i++) {
        if (asprintf(&p, "%s%s", log->path, tails[i]) < 0)
            return err_set(err, -ENOMEM, "%s: out of memory", log->path);
        rc = file_check_own(p, written, err);
        free(p);
    }
    return rc;
}

static void log_unlink(const char *path)
{
    char *p;

    for (size_t i = 0; i < TAILS; i++)
        if (asprintf(&p, "%s%s", path, tails[i]) >= 0) {
            unlink(p);
            free(p);
        }
}

/* From here on the log's index is of this start of the machine. */
static int boot_note(struct runlog *log, struct err *err)
{
    int rc;

    wal_boot(log->boot);
    rc = lock_write(log, 1);
    return rc ? err_set(err, rc, "write run.lock beside %s: %s", log->path, strerror(-rc)) : 0;
}

int runlog_create(struct runlog **out, const char *path, int durable, struct err *err)
{
    struct runlog *log = log_new(path);
    int            rc, fd;

    *out = NULL;
    if (!log)
        return err_set(err, -ENOMEM, "%s: out of memory", path);
    rc = names_check(log, 1, err);
    if (!rc)
        rc = lock_take(log, err);
    if (!rc) // SQLite opens an empty file as an empty database
        rc = file_open_own(path, O_CREAT | O_EXCL, &fd, err);
    if (rc)
        goto out;
    close(fd);
    rc = runlog_db_create(log, durable, err);
    if (!rc)
        rc = boot_note(log, err);
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
        return err_set(err, -errno, "%s: %s", path,
                       errno == ENOENT ? "no such file; expected a run's database"
                                       : strerror(errno));
    if (S_ISREG(st.st_mode) && !st.st_size)
        return err_misuse(err, "%s is not a SQLite database; expected the run.db of a siTrain run",
                          path);
    log = log_new(path);
    if (!log)
        return err_set(err, -ENOMEM, "%s: out of memory", path);
    rc = names_check(log, !read_only, err);
    if (!rc && !read_only)
        rc = lock_take(log, err);
    if (!rc && (!read_only || !lock_is_taken(log)))
        rc = wal_check(path, log->boot, NULL, err);
    if (!rc)
        rc = runlog_db_connect(log, read_only, err);
    if (!rc)
        rc = runlog_db_check_format(log, err);
    if (!rc)
        rc = runlog_check_settings(log, err);
    if (!rc && !read_only)
        rc = runlog_db_set_durable(log, durable, err);
    if (!rc && !read_only)
        rc = runlog_db_add_sums(log, err);
    if (!rc && !read_only)
        rc = boot_note(log, err);
    if (rc)
        runlog_close(log);
    else
        *out = log;
    return rc;
}

int runlog_open_past(struct runlog **out, const char *path, int *past, struct err *err)
{
    struct runlog  *log = log_new(path);
    struct wal_part part;
    int             rc;

    *out = NULL;
    *past = 0;
    if (!log)
        return err_set(err, -ENOMEM, "%s: out of memory", path);
    rc = runlog_lock_reading(log, err);
    if (!rc)
        rc = wal_check(path, log->boot, &part, err);
    if (rc == -EBADMSG && part.use != WAL_NOTHING) {
        *past = 1;
        rc = 0;
    }
    if (!rc)
        rc = runlog_db_connect_apart(log, part.use == WAL_WITHOUT, err);
    if (!rc)
        rc = runlog_db_check_format(log, err);
    if (*past && rc == -EINVAL)
        rc = err_set(err, -EBADMSG, "%s: before the damage of its log it was no run yet", path);
    if (!rc)
        rc = runlog_check_settings(log, err);
    if (rc)
        runlog_close(log);
    else
        *out = log;
    return rc;
}

int runlog_cut(const char *path, struct err *err)
{
    struct runlog  *log = log_new(path);
    struct wal_part part;
    int rc = log ? lock_take(log, err) : err_set(err, -ENOMEM, "%s: out of memory", path);

    if (!rc)
        rc = wal_check(path, log->boot, &part, err);
    if (rc == -EBADMSG && part.use != WAL_NOTHING)
        rc = wal_cut(path, &part, err);
    runlog_close(log);
    return rc;
}

void runlog_close(struct runlog *log)
{
    if (!log)
        return;
    runlog_rollback(log);
    for (int i = 0; i < SQLS; i++)
        sqlite3_finalize(log->stmt[i]);
    if (log->db && log->writes) // best effort: the WAL is as durable
        sqlite3_wal_checkpoint_v2(log->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    sqlite3_close_v2(log->db);
    if (log->writes)
        lock_write(log, 0); // a failure leaves who is dead there, which is seen
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
        return err_set(err, -ENOENT,
                       "%s was removed or renamed while the run used it; bring it back and go on "
                       "with --resume",
                       log->path);
    return runlog_db_run(log, SQL_BEGIN, "beginning a transaction", err, "");
}

int runlog_commit(struct runlog *log, struct err *err)
{
    return runlog_db_run(log, SQL_COMMIT, "committing", err, "");
}

void runlog_rollback(struct runlog *log)
{
    if (log->db && !sqlite3_get_autocommit(log->db))
        sqlite3_exec(log->db, "ROLLBACK", NULL, NULL, NULL);
}
