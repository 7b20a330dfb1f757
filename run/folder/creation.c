/* creation.c: decides whether a folder may become a run, cleans up after a killed maker, and
 * moves a completed run into place. It removes only RUN/run.new-HEX with what its maker creates
 * there (run_files.h), and devices that are certainly that maker's. A maker that tokenises takes
 * the folder of a dead one over, with the tokens in it alone. */
#include "run/folder/creation.h"

#include "data/file/file.h"
#include "data/file/file_walk.h"
#include "offload/devices/devices_place.h"
#include "run/folder/output.h"
#include "run/folder/run_files.h"
#include "run/folder/settings.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PART_PATH = SESSION_PATH + NAME_MAX + 2, TRIES = 20 };

/* ---- contents of the folder ---- */

struct found {
    char part[NAME_MAX + 1]; // the name of a maker's folder; "": none
    char other[NAME_MAX + 1]; // another name, except run.lock; "": none
};

/* What is in the folder besides `own`, a maker's folder or NULL. -errno if the folder cannot be
 * read. 0 also if it does not exist. */
static int look(const char *dir, const char *own, struct found *f)
{
    struct file_walk w;
    int              rc = file_walk_begin(&w, dir, NULL);

    *f = (struct found){ 0 };
    while (file_walk_next(&w)) {
        char *to = file_new_is(w.name, RUN_PART, 1) ? f->part : f->other;

        if (!strcmp(w.name, RUN_LOCK) || (own && !strcmp(w.path, own)) ||
            !strcmp(w.name, "lost+found")) // the file system's
            continue;
        if (!*to || !strcmp(w.name, RUN_DB)) // run.db is the most informative name
            snprintf(to, NAME_MAX + 1, "%s", w.name);
    }
    return file_walk_end(&w, rc == -ENOENT ? 0 : rc, NULL);
}

static int refuse(const char *dir, const struct found *f, struct err *err)
{
    if (!strcmp(f->other, RUN_DB))
        return err_misuse(err, "%s is a run already: go on with --resume %s, or choose another "
                          "name", dir, dir);
    if (!strcmp(f->other, RUN_DB_NEW))
        return err_misuse(err, "%s holds run.db.new, of a run that an older siTrain was making or "
                          "that was copied: remove the folder, or choose another name", dir);
    return err_misuse(err, "%s exists and holds %s: choose a folder that does not exist, or an "
                      "empty one", dir, f->other);
}

int creation_check(const char *dir, struct err *err)
{
    struct found f;
    int          rc = look(dir, NULL, &f);

    if (!rc && (rc = output_check_name(NULL, dir, err)))
        return rc;
    if (rc)
        return err_name(err, -rc, "%s: %s%s", dir, strerror(-rc),
                        rc == -ENOTDIR ? ": a folder that does not exist is expected" : "");
    // files next to a maker's folder may come from it: creation_claim checks
    return *f.other && (!*f.part || !strcmp(f.other, RUN_DB)) ? refuse(dir, &f, err) : 0;
}

/* ---- the move ---- */

/* Move everything in `from`, except its database and lock, to `to`; no name may exist there. moved:
 * the names of the moved things, one per line. */
static int move_things(const char *from, const char *to, FILE *moved, struct err *err)
{
    struct file_walk w;
    char             b[PART_PATH + NAME_MAX];
    int              rc = file_walk_begin(&w, from, err);

    while (!rc && file_walk_next(&w)) {
        if (*w.name == '.' || !strcmp(w.name, RUN_DB) || !strcmp(w.name, RUN_LOCK))
            continue;
        snprintf(b, sizeof b, "%s/%s", to, w.name);
        rc = file_rename_new(w.path, b, err);
        if (!rc)
            fprintf(moved, "%s\n", w.name);
    }
    return file_walk_end(&w, rc, err);
}

static void move_back(const char *from, const char *to, char *moved)
{
    char a[PART_PATH + NAME_MAX], b[PART_PATH + NAME_MAX], *name;

    while ((name = strsep(&moved, "\n")) && *name) {
        snprintf(a, sizeof a, "%s/%s", from, name);
        snprintf(b, sizeof b, "%s/%s", to, name);
        file_rename_new(b, a, NULL);
    }
}

/* Turn the content of `part` into the run `dir`. Content that is already in `dir` was moved by a
 * killed process. After an error, everything is moved back. */
static int move_out(const char *part, const char *dir, struct err *err)
{
    char   db[PART_PATH + 16], lock[PART_PATH + 16], to[PART_PATH], *text = NULL;
    size_t size;
    FILE  *moved = open_memstream(&text, &size);

    file_new_clean(part, NULL); // what was for the next maker
    int    rc = moved ? move_things(part, dir, moved, err)
                      : err_set(err, -ENOMEM, "out of memory for names");

    if (moved)
        fclose(moved);
    snprintf(db, sizeof db, "%s/%s", part, RUN_DB);
    snprintf(lock, sizeof lock, "%s/%s", part, RUN_LOCK);
    snprintf(to, sizeof to, "%s/%s", dir, RUN_DB);
    rc = rc ? rc : file_sync_dir(dir, err);
    rc = rc ? rc : file_rename_new(db, to, err);
    if (!rc && (rc = file_sync_dir(dir, err)))
        rename(to, db); // not a run after an error
    if (rc && text)
        move_back(part, dir, text);
    free(text);
    if (rc)
        return rc;
    unlink(lock);
    rmdir(part);
    return 0;
}

/* ---- leftovers of a killed maker ---- */

/* Removes device i of a maker that was killed or failed; `device` is the value of --device. If that
 * is a folder, the device is the file there that has the maker's id in its name. Otherwise it is
 * the file or block device itself, with the maker's id in its superblock. A device that may be
 * another run's, or that a process has open, stays. */
static void clear_device(const char *device, const char *id, size_t i)
{
    static const char  zeros[SUPERBLOCK_BYTES];
    char               path[2 * SESSION_PATH], page[SUPERBLOCK_BYTES], name[DEVICES_NAME];
    struct superblock super = { 0 };
    struct stat        st;

    if (stat(device, &st))
        return;
    int in_folder = S_ISDIR(st.st_mode);
    devices_name(name, id, "", i, 0);
    snprintf(path, sizeof path, in_folder ? "%s/%s" : "%s", device, name);
    if (in_folder) { // nobody makes this name again
        file_new_clear_left(path, 0);
        file_sync_dir(device, NULL);
    }
    if (in_folder && lstat(path, &st))
        return;
    int fd = file_open_device(path, O_RDWR | (S_ISBLK(st.st_mode) ? O_EXCL : 0));
    if (fd < 0)
        return;
    int begun = !file_pread(fd, page, sizeof page, 0, path, NULL);
    // a kill may have come before the superblock was written; then the name tells
    int ours = begun && ((!superblock_read(page, &super) && !strcmp(super.id, id)) ||
                         (in_folder && !memcmp(page, zeros, sizeof page)));
    if ((ours || (in_folder && !begun)) && !fstat(fd, &st) && !file_lock(fd, 0) &&
        (S_ISBLK(st.st_mode) || st.st_nlink == 1))
        devices_erase(fd, path, NULL);
    close(fd);
}

/* The state of a maker's folder. */
struct left {
    char  path[SESSION_PATH + NAME_MAX + 2]; // the folder
    int   fd;              // of the folder, locked
    int   whole;           // creation_close was done: it has run.db
    char *id, *place, *devices, *rank; // settings; NULL: none
};

static void left_free(struct left *l)
{
    file_close(l->fd);
    free(l->id);
    free(l->place);
    free(l->devices);
    free(l->rank);
}

/* Open and lock a maker's folder. Fails if the maker is alive, or if the folder was copied or moved
 * here. */
static int left_open(struct left *l, const char *dir, const char *name, struct err *err)
{
    char           db[PART_PATH + 16];
    struct runlog *log = NULL;

    *l = (struct left){ .fd = -1 };
    snprintf(l->path, sizeof l->path, "%s/%s", dir, name);
    l->fd = open(l->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (l->fd < 0)
        return err_set(err, -errno, "open %s: %s", l->path, strerror(errno));
    if (flock(l->fd, LOCK_EX | LOCK_NB))
        return errno == EWOULDBLOCK
                   ? err_set(err, -EBUSY, "%s is being made by another process", dir)
                   : err_misuse(err, "%s: whether a process still fills it cannot be told (%s): if "
                                "none does, remove it", l->path, strerror(errno));
    snprintf(db, sizeof db, "%s/%s", l->path, RUN_DB);
    l->whole = file_may_be(db);
    if (!l->whole)
        snprintf(db, sizeof db, "%s/%s", l->path, RUN_DB_NEW);
    if (!file_may_be(db))
        return 0; // nothing was begun
    int rc = runlog_open(&log, db, 1, 0, err);
    if (rc) // a kill before creation_close may leave it empty
        return !l->whole && (rc == -EBADMSG || rc == -EINVAL) ? 0 : rc;
    l->id = settings_get(log, "id");
    l->place = settings_get(log, "place");
    l->devices = settings_get(log, "option.device");
    l->rank = settings_get(log, "rank");
    rc = runlog_unread(log, err);
    runlog_close(log);
    if (rc)
        return rc;
    return l->place && moved_folder(dir, l->place) == MOVED_WHOLE
               ? err_misuse(err, "%s was copied or moved here from a run that was being made: "
                            "remove it, or choose another name than %s", l->path, dir)
               : 0;
}

/* Returns misuse if the folder is the complete part of another rank, and rank 0's folder is a run.
 * Then it is not a leftover: opening that run completes it (creation_finish). */
static int is_part(const char *dir, const struct left *l, struct err *err)
{
    char first[SESSION_PATH];

    if (!l->whole || !l->rank || !strcmp(l->rank, "0"))
        return 0;
    size_t n = ranks_first_length(dir, strtoul(l->rank, NULL, 10));
    if (!dir[n])
        return 0;
    snprintf(first, sizeof first, "%.*s", (int)n, dir);
    return session_may_be_run(first)
               ? err_misuse(err, "%s is the part of rank %s of the run %s, which --resume %s "
                            "finishes: choose another name", dir, l->rank, first, first) : 0;
}

/* Remove a dead maker's folder. The first one that has tokens becomes this maker's own if that
 * takes them, and only the rest of it is removed. */
static int clear_folder(struct creation *p, struct left *l, struct err *err)
{
    char base[PART_PATH];

    if (!p->takes || p->part.path)
        return run_files_remove(l->path, err);
    int rc = run_files_but_tokens(l->path, 0, err);

    if (rc <= 0)
        return rc;
    snprintf(base, sizeof base, "%s/%s", p->dir, RUN_PART);
    rc = file_new_take(&p->part, base, l->path, l->fd, err);
    if (rc == 0) // of another user
        return run_files_remove(l->path, err);
    if (rc > 0)
        l->fd = -1;
    return rc < 0 ? rc : file_sync_dir(l->path, err);
}

/* Clean up after a dead maker; the caller holds the folder's lock. Anything next to the maker's
 * folder comes from a kill during the move, which is then finished. */
static int clear_dead(struct creation *p, const struct found *f, struct err *err)
{
    const char *dir = p->dir;
    struct left l;
    int         rc = left_open(&l, dir, f->part, err);
    char       *rest = l.devices;

    if (!rc && *f->other)
        rc = l.whole && (!l.rank || !strcmp(l.rank, "0")) ? move_out(l.path, dir, err)
                                                          : refuse(dir, f, err);
    else if (!rc && !(rc = is_part(dir, &l, err))) {
        for (size_t i = 0; l.id && l.place && rest && *rest; i++)
            clear_device(strsep(&rest, "\n"), l.id, i);
        rc = clear_folder(p, &l, err);
    }
    left_free(&l);
    return rc;
}

/* Clean up until the folder is empty, or has only what this maker takes over. The caller holds its
 * lock. */
static int settle(struct creation *p, struct err *err)
{
    struct found f;
    int          rc = look(p->dir, NULL, &f);

    for (int i = 0; !rc && *f.part && strcmp(f.other, RUN_DB) && i < TRIES; i++) {
        if ((rc = clear_dead(p, &f, err)))
            return rc;
        rc = look(p->dir, p->part.temp, &f);
    }
    if (rc)
        return err_set(err, rc, "read %s: %s", p->dir, strerror(-rc));
    if (*f.other)
        return refuse(p->dir, &f, err);
    return *f.part ? err_set(err, -ENOTEMPTY, "%s/%s cannot be removed", p->dir, f.part) : 0;
}

/* ---- claim and give up ---- */

static void spares_close(struct creation *p)
{
    while (p->n_spare > 0)
        close(p->spare[--p->n_spare]);
}

/* Before anything is made: a maker that cannot remove must not begin. */
static int spares_open(struct creation *p, const char *dir, struct err *err)
{
    for (; p->n_spare < CREATION_SPARES; p->n_spare++)
        if ((p->spare[p->n_spare] = open("/", O_PATH | O_CLOEXEC)) < 0)
            return err_set(err, -errno, "make %s: %s", dir, strerror(errno));
    return 0;
}

static void unlock(struct creation *p)
{
    run_lock_release(&p->lock);
    free(p->lock.path);
    free(p->lock.db_path);
    p->lock = (struct run_lock){ .fd = -1 };
}

/* Take the folder's lock. 1: somebody removed the folder meanwhile. */
static int lock_taken(struct creation *p, const char *dir, struct err *err)
{
    char        who[128] = "";
    struct stat st;

    if (!realpath(dir, p->dir)) {
        int rc = -errno;

        return rc == -ENOENT && lstat(dir, &st) ? 1
                                                : err_set(err, rc, "%s: %s", dir, strerror(-rc));
    }
    p->lock.path = file_path(err, "%s/%s", p->dir, RUN_LOCK);
    p->lock.db_path = file_path(err, "%s/%s", p->dir, RUN_DB);
    if (!p->lock.path || !p->lock.db_path)
        return -ENOMEM;
    int rc = run_lock_take(&p->lock, err);
    if (!rc && !session_may_be_run(p->dir)) { // or another maker was faster
        p->lock.known = 0; // a run that was here before wrote the numbers, and not this one
        run_lock_note(&p->lock);
    }
    if (rc == -ENOENT)
        return 1;
    if (rc == -EBUSY && session_is_run(p->dir))
        rc = refuse(dir, &(struct found){ .other = RUN_DB }, err);
    else if (rc == -EBUSY && run_lock_holder(&p->lock, who, sizeof who))
        rc = err_set(err, rc, "%s is being made by %s: wait for it to end or stop it", dir,
                     *who ? who : "another process");
    return rc;
}

/* Create the folder if needed, and lock it. 1: somebody removed it meanwhile. */
static int lock_folder(struct creation *p, const char *dir, struct err *err)
{
    p->made = !file_make_folder(dir);
    if (!p->made && errno != EEXIST)
        return err_set(err, -errno, "mkdir %s: %s", dir, strerror(errno));
    int rc = lock_taken(p, dir, err);
    if (!p->made || p->lock.fd >= 0)
        return rc;
    if (rc == -ENOLCK && p->lock.path) // nobody else can have it either
        unlink(p->lock.path);
    rmdir(dir);
    return rc;
}

int creation_claim(struct creation *p, struct session *s, const char *dir, int takes,
                   struct err *err)
{
    char base[PART_PATH], path[PART_PATH + 16];

    *p = (struct creation)CREATION_NONE;
    p->takes = takes;
    int rc = spares_open(p, dir, err);
    rc = rc ? rc : 1; // not locked yet
    for (int i = 0; rc > 0 && i < TRIES; i++) {
        unlock(p);
        rc = lock_folder(p, dir, err);
    }
    if (rc > 0)
        rc = err_set(err, -ENOENT, "%s is removed again and again", dir);
    rc = rc ? rc : settle(p, err);
    if (!rc && fsync(p->lock.fd)) // a power cut would leave any bytes in it
        rc = err_set(err, -errno, "flush %s: %s", p->lock.path, strerror(errno));
    snprintf(base, sizeof base, "%s/%s", p->dir, RUN_PART);
    if (!rc && !p->part.path)
        rc = file_new_folder(&p->part, base, err);
    if (rc)
        return rc;
    snprintf(s->dir, sizeof s->dir, "%s", p->part.temp);
    snprintf(path, sizeof path, "%s/%s", s->dir, RUN_DB_NEW);
    rc = runlog_create(&s->log, path, s->o.durability == TRAIN_DURABLE_STEP, err);
    rc = rc ? rc : moved_store(s->log, p->dir, err);
    // durable before devices are made elsewhere: after a power cut it says whose they are
    rc = rc ? rc : file_sync_dir(p->dir, err);
    return rc ? rc : file_sync_parent(p->dir, err);
}

/* Release the lock; remove nothing. */
static void release(struct creation *p)
{
    spares_close(p);
    file_new_keep(&p->part);
    unlock(p);
}

/* Remove the devices that were made, if nothing of the run stays. If not all could be made,
 * run_format has removed those that it made (devices_discard), and what stands there under their
 * names is another's, even if its id is the same. */
static void clear_devices(struct creation *p, struct session *s)
{
    runlog_close(s->log);
    s->log = NULL;
    spares_close(p);
    for (size_t i = 0; !p->kept && p->devices && i < s->run.n_devices && s->run.device_paths; i++)
        clear_device(s->run.device_paths[i], s->id, i);
}

int creation_leave(struct creation *p, struct session *s)
{
    clear_devices(p, s);
    int left = p->takes && !p->kept && p->part.path
                   ? run_files_but_tokens(p->part.temp, 1, NULL) : 0;

    if (left) // also if what is there cannot be seen
        release(p);
    else
        creation_give_up(p, s);
    return left > 0;
}

void creation_give_up(struct creation *p, struct session *s)
{
    struct found f;

    clear_devices(p, s);
    if (!p->kept && p->part.path)
        run_files_remove(p->part.temp, NULL);
    // under the lock: whoever waits for it sees that the file has lost its name (run_lock_take)
    if (p->lock.fd >= 0 && file_names(p->lock.path, p->lock.fd) > 0 && !look(p->dir, NULL, &f) &&
        !*f.part && !*f.other) {
        unlink(p->lock.path);
        if (p->made)
            rmdir(p->dir);
    }
    release(p);
}

/* ---- completion ---- */

int creation_take_log(struct session *s, const char *copy, int rc, struct err *err)
{
    char *new = file_path(err, "%s/" RUN_DB_NEW, s->dir);

    rc = rc ? rc : !new ? -ENOMEM : runlog_whole(s->log, err);
    runlog_close(s->log);
    s->log = NULL;
    if (!rc && rename(copy, new))
        rc = err_set(err, -errno, "rename %s to %s: %s", copy, new, strerror(errno));
    rc = rc ? rc : runlog_open(&s->log, new, 0, 1, err);
    free(new);
    return rc;
}

int creation_close(struct creation *p, struct session *s, struct err *err)
{
    char from[PART_PATH + 16], to[PART_PATH + 16], wal[PART_PATH + 32];
    int  rc = runlog_whole(s->log, err);

    snprintf(from, sizeof from, "%s/%s", s->dir, RUN_DB_NEW);
    snprintf(to, sizeof to, "%s/%s", s->dir, RUN_DB);
    snprintf(wal, sizeof wal, "%s-wal", from);
    runlog_close(s->log);
    s->log = NULL;
    if (!rc && access(wal, F_OK) == 0)
        rc = err_set(err, -EIO, "%s could not be written completely (its log %s is still there)",
                     from, wal);
    rc = rc ? rc : file_rename_new(from, to, err);
    rc = rc ? rc : file_sync_dir(s->dir, err);
    rc = rc ? rc : file_sync_dir(p->dir, err);
    return rc ? rc : file_sync_parent(p->dir, err); // RUN itself
}

int creation_name(struct creation *p, struct err *err)
{
    int rc = move_out(p->part.temp, p->dir, err);

    if (!rc)
        release(p);
    return rc;
}

int creation_finish(const char *dir, const char *id, struct err *err)
{
    struct creation p = CREATION_NONE;
    struct found f;
    struct left  l;
    int          rc = look(dir, NULL, &f);

    if (rc || !*f.part || session_is_run(dir))
        return 0; // opening it reports what is wrong
    rc = lock_folder(&p, dir, err);
    int done = session_is_run(dir); // another process was faster, and may train it by now
    if (!rc && !done) {
        rc = left_open(&l, p.dir, f.part, err);
        if (!rc && l.whole && l.id && !strcmp(l.id, id))
            rc = move_out(l.path, p.dir, err);
        left_free(&l);
    }
    release(&p);
    return rc > 0 || done ? 0 : rc;
}
