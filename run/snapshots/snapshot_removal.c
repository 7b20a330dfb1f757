/* snapshot_removal.c: removes a snapshot by its own list of files, name by name. First it gets
 * another name, under which nobody takes it for a snapshot. After a kill the next rotation goes on.
 * What somebody else put into it stays under that name. */
#include "run/snapshots/snapshot_removal.h"

#include "data/file/file.h"
#include "data/file/file_walk.h"
#include "run/folder/settings.h"
#include "run/snapshots/portions.h"
#include "run/snapshots/snapshot_files.h"
#include "run/snapshots/snapshot_places.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char aside[] = ".gone"; // the end of that name, before file_new_aside's own

/* The files of a snapshot at this path. */
struct own {
    const char     *path;
    char           *files, *times;
    struct portions portions;
    size_t          others;              // on the drives, which stay: the first of them is
    char            other[SESSION_PATH];
    int             stays;               // it may be another run's, or cannot be read now
    int             whole, changed;
};

/* The file's line in snapshot.times: whether it was last written then. Of an older snapshot, no
 * times are known. */
static int is_unwritten(const struct own *own, const char *file, const struct stat *st)
{
    const char *name = file + strlen(own->path) + 1;
    size_t      n = strlen(name);

    for (const char *at = own->times; at && *at; at += *at == '\n') {
        char    *end;
        uint64_t ns = strtoull(at, &end, 10);

        if (*end == ' ' && !strncmp(end + 1, name, n) && (!end[n + 1] || end[n + 1] == '\n'))
            return ns == file_ns(&st->st_mtim);
        at += strcspn(at, "\n");
    }
    return !own->times;
}

/* Whether the file is of the list's kind and size, in a folder that is no link; -errno if nobody
 * could look, or something is mounted on the folder. */
static int is_listed(const struct own *own, const char *file, const char *folder, uint64_t bytes,
                     struct stat *st)
{
    struct stat at;
    int         rc = lstat(folder, &at) ? -errno : S_ISDIR(at.st_mode);

    if (rc > 0 && (rc = file_same_mount(own->path, folder)) == 0)
        rc = -EBUSY;
    rc = rc > 0 && lstat(file, st) ? -errno : rc;
    if (rc <= 0)
        return file_is_absent(-rc) ? 0 : rc;
    return S_ISREG(st->st_mode) && (uint64_t)st->st_size == bytes;
}

static int look_file(void *ctx, const char *file, uint64_t bytes)
{
    struct own *own = ctx;
    char       *folder = file_folder(file);
    struct stat st;
    int         rc = folder ? is_listed(own, file, folder, bytes, &st) : -ENOMEM;

    own->changed |= rc > 0 && !is_unwritten(own, file, &st);
    free(folder);
    return rc < 0 ? rc : 0;
}

/* Removes a file if it is what the list says. -errno: it stays. */
static int unlink_file(void *ctx, const char *file, uint64_t bytes)
{
    const struct own *own = ctx;
    char             *folder = file_folder(file);
    struct stat       st;
    int               rc = folder ? is_listed(own, file, folder, bytes, &st) : -ENOMEM;

    if (rc > 0)
        rc = (own->whole || is_unwritten(own, file, &st)) && unlink(file) ? -errno : 0;
    if (folder && strcmp(folder, own->path))
        rmdir(folder); // if it was the last file in it
    free(folder);
    return rc;
}

/* The lists of the snapshot at this path. files NULL: it has none. portions: its files on the
 * devices' drives, if they are certainly this run's: run.db of a copied snapshot names the
 * original's. If they may be either's, the snapshot stays: only its run.db names them. */
static struct own own_of(const struct session *s, const char *path)
{
    char          *of = NULL;
    struct runlog *log = NULL;
    struct own     own = { .path = path };
    int            rc = runlog_open_in(&log, path, 1, NULL);

    own.stays = file_is_unread(rc) || !snapshots_is_ours(s, path, log);
    if (!rc) {
        own.files = settings_get(log, "snapshot.files");
        own.times = settings_get(log, "snapshot.times");
        of = settings_get(log, "snapshot.of");
    }
    int certain = of && portions_certain(s, of);
    own.stays |= certain ? portions_load(&own.portions, log, NULL) != 0
                         : of && file_is(s->dir, of) && settings_has(log, "snapshot.portions");
    own.others = portions_forget_others(&own.portions, own.other, s, of);
    free(of);
    runlog_close(log);
    return own;
}

static void own_release(struct own *own)
{
    portions_release(&own->portions);
    free(own->files);
    free(own->times);
}

/* Whether files of other times have the contents that siTrain wrote, as in a copy by cp -r. The
 * snapshot, locked by fd, is shared for reading. 0 also if it is not locked afterwards. */
static int is_as_written(const char *path, int fd, int *locked)
{
    struct err why;
    int        whole = !flock(fd, LOCK_SH) && !snapshot_read(path, snapshot_check, NULL, &why);

    *locked = !flock(fd, LOCK_EX | LOCK_NB);
    return whole && *locked;
}

/* Has run.db alone hold the list: a process that was killed may have left it in its log, which goes
 * before run.db does. */
static int take_in_log(const char *path)
{
    char           file[SESSION_PATH + 64];
    struct runlog *log = NULL;
    struct stat    st;

    snprintf(file, sizeof file, "%s/run.db-wal", path);
    if (stat(file, &st) || !st.st_size)
        return 0;
    int rc = runlog_open_in(&log, path, 0, NULL);
    rc = rc ? rc : runlog_whole(log, NULL);
    runlog_close(log);
    return rc;
}

/* Removes the files of a snapshot that nobody else has open: fd has it locked. run.db, which has
 * the list of all others, is the last, and stays if one of them cannot be removed: a power cut must
 * not keep what it lists and lose the list. What is not on the list stays, too, and what somebody
 * has written to: then 1. */
static int clear(struct session *s, const char *path, int fd)
{
    static const char *const names[] = { "run.db-wal", "run.db-shm", "run.lock", "run.db" };
    char                     file[SESSION_PATH + 64];
    struct own               own = own_of(s, path);
    struct err               unsaid;
    int                      locked = 1;
    int gone = own.files && !own.stays && !snapshot_files_each(path, own.files, look_file, &own);

    if (gone && own.changed)
        own.whole = is_as_written(path, fd, &locked);
    gone = gone && locked && !portions_remove(&own.portions) &&
           !snapshot_files_each(path, own.files, unlink_file, &own) && !take_in_log(path);
    for (size_t i = 0; gone && i < sizeof names / sizeof *names; i++) {
        snprintf(file, sizeof file, "%s/%s", path, names[i]);
        if (strcmp(names[i], "run.db") || !file_sync_dir(path, NULL))
            unlink(file);
    }
    if (gone && own.others)
        session_notice(s, &unsaid, "%s%s stay: RUN was renamed, and a folder there is another one "
                       "than that in which the snapshot was made, as that of a backup is",
                       own.other, own.others > 1 ? " and other files of the removed snapshot" : "");
    own_release(&own);
    return rmdir(path) && errno != ENOENT;
}

/* Whether nobody could look at one of its files: -errno. Its removal is not begun then. */
static int is_unseen(const struct session *s, const char *path)
{
    struct own own = own_of(s, path);
    int        rc = own.files ? snapshot_files_each(path, own.files, look_file, &own) : 0;

    own_release(&own);
    return file_is_unread(rc) || rc == -EBUSY ? rc : 0;
}

static int lock_alone(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB))
        return fd;
    file_close(fd);
    return -1;
}

/* Gives it a name under which nobody takes it for a snapshot. *at gets that name; the caller frees
 * it. The new name is flushed, because a file system may keep the removal of files that follows,
 * and lose the name at a power cut. */
static int set_aside(char **at, const char *path, const char *name, struct err *err)
{
    char            base[SESSION_PATH + sizeof aside];
    struct file_new to;

    *at = NULL;
    snprintf(base, sizeof base, "%s%s", name, aside);
    int rc = file_new_aside(&to, path, base, err);
    if (rc)
        return rc;
    rc = file_sync_parent(to.temp, err);
    *at = rc ? NULL : file_path(err, "%s", to.temp);
    file_new_keep(&to);
    return *at ? 0 : rc ? rc : -ENOMEM;
}

int snapshot_remove(struct session *s, const char *path, struct err *err)
{
    const char *fixed = file_fixed(path); // or else it would lose its name, and could not go
    char       *at = NULL;

    if (fixed)
        return err_set(err, -EPERM, "%s %s; it is not removed", path, fixed);
    int fd = lock_alone(path), rc;
    if (fd < 0)
        return err_set(err, -EBUSY, "%s is in use and is not removed yet", path);
    rc = is_unseen(s, path);
    rc = rc ? err_set(err, rc, "%s is not removed: what is in it cannot be looked at: %s", path,
                      strerror(-rc))
            : set_aside(&at, path, path, err);
    if (!rc && clear(s, at, fd))
        rc = err_set(err, -ENOTEMPTY, "%s is no snapshot any more: what siTrain did not write, or "
                     "somebody has changed, is in %s now", path, at);
    free(at);
    file_close(fd);
    return rc;
}

int snapshot_replaced(struct session *s, const char *path, const char *name, struct err *err)
{
    char *at = NULL;
    int   rc = set_aside(&at, path, name, err), fd = rc ? -1 : lock_alone(at);

    if (fd >= 0)
        clear(s, at, fd);
    free(at);
    file_close(fd);
    return rc;
}

int snapshot_put_aside(struct session *s, const char *path, struct err *err)
{
    char *to;

    if (!snapshots_is_damaged(s, path))
        return 0;
    int rc = file_put_aside(&to, path, "damaged", err);
    rc = rc ? rc : session_notice(s, err, "%s has a damaged run.db, and stays as %s", path, to);
    free(to);
    return rc;
}

/* Removes what a dead process of this rank left where the walk is, under the name `base` and an
 * end. A folder that it had begun to fill has no list of files yet. Another one has: it was
 * complete, or its place was taken by a new one when the process was killed, or it is half removed.
 * That of a copy of this run is the copy's, which goes on with it. */
static void clean(struct session *s, const struct file_walk *w, const char *base, int half_removed)
{
    char      *name = file_path(NULL, "%s/%s", w->dir, base), *at = NULL;
    int        fd = name ? lock_alone(w->path) : -1, begun = 0;
    struct own own = { .stays = 1 };

    if (fd >= 0)
        own = own_of(s, w->path);
    if (!own.stays && half_removed)
        clear(s, w->path, fd);
    else if (!own.stays && own.files && !set_aside(&at, w->path, name, NULL))
        clear(s, at, fd);
    else
        begun = !own.stays && !own.files;
    file_close(fd);
    if (begun)
        file_new_remove_dead(w, 1);
    own_release(&own);
    free(at);
    free(name);
}

static int clean_folder(void *ctx, const char *folder, int unread, const struct err *why)
{
    struct file_walk w;
    size_t           end = strlen(aside);

    (void)why;
    if (unread)
        return 0;
    file_walk_begin(&w, folder, NULL);
    while (file_walk_next(&w)) {
        char        base[NAME_MAX + 1];
        const char *tail = strstr(w.name, ".new-");
        size_t      n = tail ? (size_t)(tail - w.name) : 0;

        snprintf(base, sizeof base, "%.*s", (int)n, w.name);
        if (!n || !file_new_is(w.name, base, 1))
            continue;
        int half_removed = n > end && !strcmp(base + n - end, aside);

        if (half_removed)
            base[n - end] = '\0';
        if (snapshot_places_is_step(ctx, base))
            clean(ctx, &w, base, half_removed);
    }
    file_walk_end(&w, 0, NULL);
    return 0;
}

/* ---- files on the devices' drives, of a snapshot that was not made ---- */

static int is_in_a_folder(const char *path)
{
    char *around = file_folder(path);
    int   is = around && !access(around, F_OK);

    free(around);
    return is;
}

/* Whether a process makes the snapshot in this folder, or may have made it: the folder around it is
 * not there, as where its drive is away. */
static int is_under_way(const char *folder)
{
    int away = !is_in_a_folder(folder);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int held = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB);

    file_close(fd);
    return away || held;
}

static int same_name(const char *a, const char *b)
{
    return !strcmp(strrchr(a, '/') + 1, strrchr(b, '/') + 1); // restore may have moved it
}

/* Whether this is a file of the snapshot that was begun in this folder and has its name by now: 1,
 * 0, or -1 if the snapshot cannot be read. */
static int is_a_snapshots(const char *folder, const char *path)
{
    const char     *base = strrchr(folder, '/'), *new = base ? strstr(base, ".new-") : NULL;
    char           *name = file_path(NULL, "%.*s", (int)(new ? new - folder : 0), folder);
    struct runlog  *log = NULL;
    struct portions p = { 0 };
    int             is = !new || !name ? -1 : access(name, F_OK) ? (errno == ENOENT ? 0 : -1) : 1;

    if (is > 0 && (runlog_open_in(&log, name, 1, NULL) || portions_load(&p, log, NULL)))
        is = -1;
    if (is > 0) {
        is = 0;
        for (size_t i = 0; i < 2 * p.n; i++)
            is |= same_name(p.path[i], path);
    }
    portions_release(&p);
    runlog_close(log);
    free(name);
    return is;
}

/* paths: the lines of portions.begun behind the first two. 0: nothing is left of them. */
static int clean_files(const struct session *s, const char *folder, char *paths)
{
    char *path;
    int   rc = 0, keep = 0;

    for (size_t k = 0; !rc && !keep && (path = strsep(&paths, "\n")); k++) {
        if (!portions_named(path, k, s->id))
            return 0; // siTrain did not write this
        keep = k ? 0 : is_a_snapshots(folder, path);
        rc = keep < 0 ? -EIO : keep ? 0 : portions_remove_file(path);
    }
    return rc;
}

/* A path of portions.begun, malloced. Older versions wrote a backslash as it is. */
static char *begun_path(const char *line)
{
    char *path = line ? strdup(line) : NULL;

    if (path)
        portions_line_path(path);
    if (path && !is_in_a_folder(path) && is_in_a_folder(line))
        memcpy(path, line, strlen(line) + 1); // which is no shorter
    return path;
}

/* Removes what a killed process had begun: files of portions.begun that are no snapshot's. */
static void clean_begun(struct session *s)
{
    char *text = settings_get(s->log, "portions.begun"), *rest = text;
    char *of = strsep(&rest, "\n"), *folder = begun_path(strsep(&rest, "\n"));

    if (of)
        portions_line_path(of);
    if (of && !portions_certain(s, of)) // copied with the run's run.db: they are the original's
        portions_end(s, NULL);
    else if (folder && !is_under_way(folder) && !clean_files(s, folder, rest))
        portions_end(s, NULL);
    free(folder);
    free(text);
}

void snapshots_clean(struct session *s)
{
    snapshot_places_each(s, clean_folder, s);
    clean_begun(s);
}

/* Whether the k-th of the list is the i-th, or a copy of it: a folder may be seen by two paths, and
 * have another inode by each of them (FUSE). They count once, and go together. */
static int are_twins(const struct snapshots *list, size_t i, size_t k)
{
    const struct snapshot *a = &list->at[i], *b = &list->at[k];

    // a number is given again if the folder that had it could not be looked into
    return a->n == b->n && a->ours && b->ours && a->step == b->step && !strcmp(a->taken, b->taken);
}

static int is_first(const struct snapshots *list, size_t i)
{
    size_t k = 0;

    while (k < i && !are_twins(list, i, k))
        k++;
    return k == i && list->at[i].ours;
}

/* 1 if it, or a twin of it, is whole. */
static size_t any_whole(const struct snapshots *list, size_t i)
{
    size_t any = 0;

    for (size_t k = i; k < list->n; k++)
        any |= are_twins(list, i, k) && list->at[k].whole;
    return any;
}

/* Removes the oldest, of those in the run's history or of all others, while too many are whole. */
static int remove_some(struct session *s, const struct snapshots *list, int others, size_t *whole,
                       struct err *err)
{
    struct err why;
    int        rc = 0;

    for (size_t i = 0; i < list->n && *whole > s->o.snapshots && !rc; i++) {
        if (!is_first(list, i) || snapshot_is_now(&list->at[i], s) == others)
            continue;
        *whole -= any_whole(list, i);
        for (size_t k = i; k < list->n && !rc; k++) {
            int stays = are_twins(list, i, k) ? snapshot_remove(s, list->at[k].path, &why) : 0;

            if (stays && (k == i || (stays != -ENOENT && file_may_be(list->at[k].path))))
                rc = session_notice(s, err, "%s", why.text);
        }
    }
    return rc;
}

int snapshots_rotate(struct session *s, struct err *err)
{
    struct snapshots list;
    size_t           whole = 0;
    int              rc = snapshots_list(&list, s, err);

    for (size_t i = 0; i < list.n; i++)
        whole += is_first(&list, i) ? any_whole(&list, i) : 0;
    rc = rc ? rc : remove_some(s, &list, 1, &whole, err);
    rc = rc ? rc : remove_some(s, &list, 0, &whole, err);
    snapshots_free(&list);
    snapshots_clean(s);
    return rc;
}
