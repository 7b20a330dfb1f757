/* db_wait.c: waits if another program holds the database, like someone's sqlite3 in a transaction,
 * or a backup. A training of weeks must not end for that: it waits for minutes, says for what, and
 * asks whether it still should. */
#include "data/db/db_wait.h"

#include "data/base/clock.h"
#include "data/file/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { SLICE_MS = 100 };

static struct db_wait_rule wait_rule = { .notice_ms = 2000, .limit_ms = 600000 };

void db_wait_set(const struct db_wait_rule *rule) { wait_rule = *rule; }

/* ---- who holds it ---- */

/* The process that the kernel lists with a write lock on this file. 0 if there is none, or if it is
 * in another namespace or on another machine. (Asking with fcntl would need a descriptor, and
 * closing that would drop SQLite's own locks.) */
static long lock_owner(const char *path)
{
    struct stat   st;
    FILE         *f = stat(path, &st) ? NULL : fopen("/proc/locks", "re");
    char          line[256];
    long          pid = 0, found = 0;
    unsigned      major, minor;
    unsigned long inode;

    while (f && !found && fgets(line, sizeof line, f))
        if (sscanf(line, "%*d: POSIX %*s WRITE %ld %x:%x:%lu", &pid, &major, &minor, &inode) == 4 &&
            inode == st.st_ino && major == major(st.st_dev) && minor == minor(st.st_dev) &&
            pid > 0 && pid != (long)getpid())
            found = pid;
    if (f)
        fclose(f);
    return found;
}

/* Writes "another program", or its name and number. A writer's lock is on the index, an exclusive
 * one on run.db. */
static void holder_name(const char *db_path, char *text, size_t size)
{
    static const char *const tails[] = { "-shm", "" };
    char                     path[4200], name[32] = "a program";
    long                     pid = 0;

    for (size_t i = 0; i < 2 && !pid; i++)
        if ((size_t)snprintf(path, sizeof path, "%s%s", db_path, tails[i]) < sizeof path)
            pid = lock_owner(path);
    snprintf(text, size, "another program");
    if (!pid)
        return;
    snprintf(path, sizeof path, "/proc/%ld/comm", pid);
    FILE *f = fopen(path, "re");
    if (f && fgets(name, sizeof name, f))
        name[strcspn(name, "\n")] = '\0';
    if (f)
        fclose(f);
    snprintf(text, size, "%s (process %ld)", name, pid);
}

/* ---- waiting ---- */

static int wait_say(struct db_wait *w)
{
    char       who[96];
    struct err text;

    if (!wait_rule.say)
        return 0;
    if (w->told)
        return wait_rule.say(wait_rule.ctx, NULL);
    w->told = 1;
    holder_name(w->path, who, sizeof who);
    err_set(&text, 0, "%s is locked by %s: waiting until it lets go, for %.3g minutes at most",
            w->path, who, (double)wait_rule.limit_ms / 60000);
    return wait_rule.say(wait_rule.ctx, text.text);
}

/* Tries to take a lock as SQLite does (fcntl). -ENOLCK: the file system has no such locks. -ENOMEM:
 * the kernel has no memory for one. Waiting helps in neither case, but SQLite reports both as busy.
 * 0: it took one. The lock is on run.lock next to the database, on which nobody else takes such
 * locks: closing another descriptor of the database would drop SQLite's own. */
static int lock_try(const char *db_path)
{
    struct flock want = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
    char        *path = file_beside(db_path, "run.lock", NULL);
    uint64_t     size;
    int          fd = -1, why = 0;

    if (path && !file_open_read(path, &fd, &size, NULL)) {
        why = fcntl(fd, F_SETLK, &want) ? errno : 0;
        close(fd);
    }
    free(path);
    return why == ENOMEM ? -ENOMEM
           : why == ENOLCK || why == ENOSYS || why == EINVAL || why == EOPNOTSUPP ? -ENOLCK : 0;
}

/* SQLite calls this if the database is locked. count: calls for this lock so far. Not 0: try
 * again. */
int db_wait_busy(void *wait, int count)
{
    struct db_wait *w = wait;

    if (w->given_up)
        return 0;
    if (count == 0) {
        w->busy_ns = clock_ns();
        w->told = 0;
        if ((w->given_up = lock_try(w->path)))
            return 0;
    }
    uint64_t ms = (clock_ns() - w->busy_ns) / 1000000;
    if (ms >= wait_rule.limit_ms)
        w->given_up = -EBUSY;
    else if (ms >= wait_rule.notice_ms && wait_say(w))
        w->given_up = -EINTR;
    else
        usleep((count < SLICE_MS ? (unsigned)count + 1 : SLICE_MS) * 1000);
    return !w->given_up;
}

int db_wait_fail(const struct db_wait *w, const char *doing, struct err *err)
{
    if (w->given_up == -EINTR)
        return err_stopped(err, "%s: stopped while waiting for another program that has it locked "
                           "(while %s); a run goes on with --resume", w->path, doing);
    if (w->given_up == -ENOLCK)
        return err_set(err, -ENOLCK, "lock %s: %s: the file system has no locks, so a second "
                       "process could not be kept from this run; put it on a local one", w->path,
                       strerror(ENOLCK));
    if (w->given_up == -ENOMEM)
        return err_set(err, -ENOMEM, "lock %s: %s (while %s)", w->path, strerror(ENOMEM), doing);
    if (!w->given_up) // waiting could not help
        return err_set(err, -EBUSY, "%s is locked by another program (while %s); close it and try "
                       "again", w->path, doing);
    return err_set(err, -EBUSY, "%s is locked by another program, for %.2g minutes now (while %s): "
                   "let it end what it does there; a run goes on with --resume", w->path,
                   (double)(clock_ns() - w->busy_ns) / 60e9, doing);
}
