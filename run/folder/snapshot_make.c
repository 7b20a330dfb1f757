/* snapshot_make.c: fills the folder of a snapshot, proves it whole and gives it its name.
 *
 * Each file is noted before it is made, and its size when all are there: by this list
 * (snapshot.files) the snapshot is known to be complete, and removed. A failure removes what was
 * made, and is no failure of the run. */
#include "run/folder/snapshot_make.h"

#include "csd/csd.h"
#include "data/base/clock.h"
#include "data/base/file.h"
#include "data/base/file_walk.h"
#include "data/base/machine.h"
#include "data/db/ledger.h"
#include "data/text/tokenizer.h"
#include "model/file/hf.h"
#include "offload/devices/devices.h"
#include "offload/devices/image.h"
#include "offload/upkeep/snapshot.h"
#include "run/folder/output.h"
#include "run/folder/run_files.h"
#include "run/folder/settings.h"
#include "run/folder/snapshot_places.h"
#include "run/folder/snapshot_removal.h"

#include <fcntl.h>
#include <math.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAKE_PATH = SESSION_PATH + 128 };

struct making {
    struct session   *s;
    uint64_t          step, n;
    char              name[MAKE_PATH];  // DIR/NAME-ID/step-00000400
    struct file_new   folder;           // the folder that is filled
    struct run_config to;               // of the snapshot
    char              owner[SUPERBLOCK_WORD];
    FILE             *list;             // names of its files, one per line
    char             *names;
    size_t            names_size;
    uint64_t          begun_ns, bytes, shared;
};

/* ---- its files ---- */

static int note_file(void *ctx, const char *name, struct err *err)
{
    struct making *m = ctx;

    return fprintf(m->list, "%s\n", name) < 0
               ? err_set(err, -ENOMEM, "out of memory for the names of a snapshot's files") : 0;
}

static int copy_states(struct making *m, struct err *err)
{
    struct watch         w = work_begin(m->s->events, "copying the states of %s after step %" PRIu64
                                        " to a snapshot", m->s->dir, m->step);
    struct snapshot_take t = { .run = &m->s->run, .to = &m->to, .watch = &w, .made = note_file,
                               .ctx = m };
    int                  rc = snapshot_take(&t, err);

    work_end(m->s->events);
    m->bytes = t.bytes;
    m->shared = t.shared;
    return rc;
}

/* Drops the pages of a file that was flushed: who compares it reads it from the drive. */
static void forget_pages(const char *path)
{
    uint64_t size;
    int      fd;

    if (file_open_read(path, &fd, &size, NULL))
        return;
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

/* Copies those files of RUN/sub whose names `takes` wants. Links are not copied. */
static int copy_folder(struct making *m, const char *sub, int (*takes)(const char *name),
                       struct err *err)
{
    struct file_walk w;
    struct stat      st;
    char             from[MAKE_PATH], to[MAKE_PATH], name[2 * NAME_MAX + 2];
    int              rc;

    snprintf(from, sizeof from, "%s/%s", m->s->dir, sub);
    snprintf(to, sizeof to, "%s/%s", m->to.dir, sub);
    if (lstat(from, &st) || !S_ISDIR(st.st_mode))
        return 0;
    if (file_make_folder(to))
        return err_set(err, -errno, "mkdir %s: %s", to, strerror(errno));
    rc = file_walk_begin(&w, from, err);
    while (!rc && file_walk_next(&w)) {
        if (!takes(w.name) || lstat(w.path, &st) || !S_ISREG(st.st_mode))
            continue;
        snprintf(name, sizeof name, "%s/%s", sub, w.name);
        rc = note_file(m, name, err);
        char *path = rc ? NULL : file_path(err, "%s/%s", m->to.dir, name);
        rc = path ? file_copy(w.path, path, UINT64_MAX, err) : -ENOMEM;
        if (!rc)
            forget_pages(path);
        free(path);
    }
    rc = file_walk_end(&w, rc, err);
    return rc ? rc : file_sync_dir(to, err);
}

static int is_tokenizers(const char *name)
{
    const char *known;

    for (size_t i = 0; (known = tokenizer_file(i)); i++)
        if (!strcmp(name, known))
            return 1;
    return 0;
}

/* The list with sizes, as snapshot.files has it; malloced. */
static char *files_text(struct making *m, struct err *err)
{
    char       *out = NULL, *rest, *name;
    size_t      size;
    FILE       *f;
    struct stat st;
    int         bad = fflush(m->list);

    rest = m->names;
    if (bad || !(f = open_memstream(&out, &size))) {
        err_set(err, -ENOMEM, "out of memory for the names of a snapshot's files");
        return NULL;
    }
    while ((name = strsep(&rest, "\n")) && *name) {
        char *path = file_path(NULL, "%s/%s", m->to.dir, name);

        bad |= !path || lstat(path, &st);
        fprintf(f, "%s%" PRIu64 " %s", ftell(f) ? "\n" : "", bad ? 0 : (uint64_t)st.st_size, name);
        free(path);
    }
    bad |= fclose(f) != 0;
    if (!bad)
        return out;
    free(out);
    err_set(err, -EIO, "%s: the files of the snapshot cannot be listed", m->to.dir);
    return NULL;
}

/* ---- its run.db ---- */

const char *const snapshot_changes[] = { "option.device", "option.devices", "option.fpga",
                                         "option.act-device", "option.csd", "layout", "owner",
                                         NULL };

/* Stores which folder it is: its file_identity, a space, and a path. */
static int store_folder(struct runlog *log, const char *key, const char *folder, const char *path,
                        struct err *err)
{
    char is[FILE_IDENTITY];

    file_identity(folder, is);
    char *value = file_path(err, "%s %s", is, path);
    int   rc = value ? runlog_set(log, key, value, err) : -ENOMEM;

    free(value);
    return rc;
}

/* Says which snapshot it is, of what. Older programs would train it. */
static int mark(const struct making *m, struct runlog *log, struct err *err)
{
    char      taken[32];
    time_t    now = time(NULL);
    struct tm tm;
    int       rc = runlog_raise(log, FORMAT_SNAPSHOT, err);

    strftime(taken, sizeof taken, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    rc = rc ? rc : store_folder(log, "place", m->to.dir, m->name, err);
    rc = rc ? rc : store_folder(log, "snapshot.of", m->s->dir, m->s->dir, err);
    return rc ? rc : settings_set(log, err, "snapshot=%" PRIu64 "\nsnapshot.n=%" PRIu64
                                  "\nsnapshot.taken=%s", m->step, m->n, taken);
}

/* What the run had of the settings that its snapshot changes: a rank whose folder is lost gets them
 * back (run/ranks/rank_again.h). */
static int keep_settings(const struct making *m, struct runlog *log, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; snapshot_changes[i] && !rc; i++) {
        char *value, key[64];

        rc = settings_find(&value, m->s->log, err, "%s", snapshot_changes[i]);
        snprintf(key, sizeof key, SNAPSHOT_WAS "%s", snapshot_changes[i]);
        if (!rc && value)
            rc = runlog_set(log, key, value, err);
        free(value);
    }
    return rc;
}

/* Its devices are emulated ones in its own folder, with a word of their own: the run's devices are
 * not taken for them, nor they for the run's. */
static int settle(const struct making *m, struct runlog *log, struct err *err)
{
    static const char *const none[] = { "layout", "owner.next", "reshard.remove" };

    int rc = keep_settings(m, log, err);
    rc = rc ? rc : settings_set(log, err, "option.device=\noption.fpga=\noption.act-device=\n"
                          "option.csd=%s\noption.devices=%zu\nowner=%s", csd_name(0),
                          m->to.n_devices, m->owner);
    for (size_t i = 0; i < sizeof none / sizeof *none && !rc; i++)
        rc = runlog_unset(log, none[i], err);
    if (!rc && settings_has(log, "best.folder")) {
        char best[MAKE_PATH], identity[FILE_IDENTITY];

        snprintf(best, sizeof best, "%s/best", m->to.dir);
        file_identity(best, identity);
        rc = settings_set(log, err, "best.folder=%s", identity);
    }
    return rc ? rc : mark(m, log, err);
}

/* The rows of the states: where its devices are, and in mode mem only the image that it has. */
static int settle_states(const struct making *m, struct err *err)
{
    const struct run_config *to = &m->to;
    struct image_state       newest;
    char                     name[DEVICES_NAME];
    struct stat              st;
    int                      rc = runlog_devices_forget(to->log, 0, err);

    for (size_t i = 0; to->mode != RUN_MEM && i < to->n_devices && !rc; i++) {
        devices_name_in_run(name, "", i);
        char *in = file_path(err, "%s/%s", to->dir, name), *at = file_path(err, "%s/%s", m->name,
                                                                           name);
        rc = !in || !at        ? -ENOMEM
             : lstat(in, &st) ? err_set(err, -errno, "%s: %s", in, strerror(errno))
                              : runlog_device(to->log, (int)i, at, to->csd->name, to->disk,
                                              (uint64_t)st.st_size, err);
        free(in);
        free(at);
    }
    if (rc || to->mode != RUN_MEM)
        return rc ? rc : moved_note(to, err);
    rc = image_latest(to, &newest, err);
    return rc ? rc : ledger_clear_image(to->log, 1 - newest.area, err);
}

/* All that differs from the run's database, in one transaction; then one file without a log. */
static int settle_log(struct making *m, struct err *err)
{
    char *files = files_text(m, err);
    int   rc = files ? runlog_begin(m->to.log, err) : -ENOMEM;

    if (!rc) {
        rc = settle(m, m->to.log, err);
        rc = rc ? rc : settle_states(m, err);
        rc = rc ? rc : runlog_set(m->to.log, "snapshot.files", files, err);
        rc = runlog_end(m->to.log, rc, err);
    }
    free(files);
    return rc ? rc : runlog_whole(m->to.log, err);
}

static int flush_log(const char *db, struct err *err)
{
    uint64_t size;
    int      fd, rc = file_open_read(db, &fd, &size, err);

    if (rc)
        return rc;
    if (fsync(fd))
        rc = err_set(err, -errno, "flush %s: %s", db, strerror(errno));
    close(fd);
    forget_pages(db);
    return rc;
}

/* ---- the folder ---- */

static int fill(struct making *m, struct err *err)
{
    char db[MAKE_PATH], lock[MAKE_PATH];

    snprintf(db, sizeof db, "%s/" RUN_DB, m->to.dir);
    snprintf(lock, sizeof lock, "%s/" RUN_LOCK, m->to.dir);
    int rc = copy_states(m, err);
    rc = rc ? rc : copy_folder(m, "tokenizer", is_tokenizers, err);
    if (!rc && settings_has(m->s->log, "best.step"))
        rc = copy_folder(m, "best", output_is_model, err);
    rc = rc ? rc : runlog_copy(m->s->log, db, err);
    rc = rc ? rc : runlog_open(&m->to.log, db, 0, 0, err);
    rc = rc ? rc : settle_log(m, err);
    runlog_close(m->to.log);
    m->to.log = NULL;
    unlink(lock);
    rc = rc ? rc : flush_log(db, err);
    return rc ? rc : file_sync_dir(m->to.dir, err);
}

/* Reads what was written back from the drive. */
static int prove(const struct making *m, struct err *err)
{
    struct session made;
    flock(m->folder.fd, LOCK_SH); // as a reader has it
    int rc = session_open(&made, m->to.dir, SESSION_READ, m->s->events, err);

    rc = rc ? rc : snapshot_verify(&made, err);
    session_close(&made);
    return rc == -EINTR || !rc ? rc : err_set(err, rc, "%.700s; the snapshot was not kept",
                                              err->text);
}

/* Refuses the name if something has it that is not certainly a snapshot of this run: of two runs
 * with one id, a copy and its original, each has its own. */
static int name_check(const struct making *m, struct err *err)
{
    struct snapshot at;
    struct stat     st;

    if (lstat(m->name, &st) && errno == ENOENT)
        return 0;
    if (!lstat(m->name, &st) && S_ISDIR(st.st_mode) && snapshots_look(&at, m->s, m->name) &&
        at.ours)
        return 0;
    return err_set(err, -EEXIST, "%s is not certainly a snapshot of this run (it may be that of a "
                   "copy of it), so it stays, and no new one takes its name: move it elsewhere, or "
                   "name another --snapshot-dir", m->name);
}

/* Gives the folder its name. A snapshot of the same step, of a branch that the run has left, goes
 * when the new one is there. If it cannot go, the next rotation removes it. */
static int take_name(struct making *m, struct err *err)
{
    struct file_new *f = &m->folder;
    struct err       unsaid;
    int              rc = name_check(m, err);

    if (rc || access(m->name, F_OK))
        return rc ? rc : file_new_commit(f, err);
    if (fsync(f->fd))
        return err_set(err, -errno, "fsync %s: %s", f->temp, strerror(errno));
    if (!renameat2(AT_FDCWD, f->temp, AT_FDCWD, m->name, RENAME_EXCHANGE)) {
        rc = file_sync_parent(m->name, err);
        if (!rc)
            snapshot_replaced(f->temp, m->name, &unsaid);
        file_new_keep(f);
        return rc;
    }
    if (!file_lacks_flags(errno))
        return err_set(err, -errno, "rename %s to %s: %s", f->temp, m->name, strerror(errno));
    rc = snapshot_replaced(m->name, m->name, err); // the new one is whole already
    return rc ? rc : file_new_commit(f, err);
}

static int record(const struct making *m, struct err *err)
{
    return runlog_snapshot(m->s->log,
                           &(struct runlog_snapshot){
                               .n = m->n, .step = m->step, .path = m->name, .bytes = m->bytes,
                               .shared = m->shared,
                               .seconds = (double)(clock_ns() - m->begun_ns) * 1e-9 }, err);
}

/* Makes a folder, for good, unless it is there. */
static int make_folder(const char *path, struct err *err)
{
    if (!file_make_folder(path))
        return file_sync_parent(path, err);
    return errno == EEXIST ? 0 : err_set(err, -errno, "mkdir %s: %s", path, strerror(errno));
}

/* The folder DIR/NAME-ID, made if it is not there, and the snapshot's name in it. */
static int place(struct making *m, const char *dir, struct err *err)
{
    char folder[SESSION_PATH], name[64], own[SESSION_PATH];

    snapshot_places_own(own, m->s);
    int rc = dir ? 0 : make_folder(own, err);
    if (rc)
        return rc;
    dir = dir ? dir : own;
    snapshot_places_names(folder, name, m->s, m->step);
    if (snprintf(m->name, SESSION_PATH, "%s/%s", dir, folder) > SESSION_PATH - 96)
        return err_set(err, -ENAMETOOLONG, "%s: the path of a snapshot would be too long", dir);
    if ((rc = make_folder(m->name, err)))
        return rc;
    snprintf(m->name + strlen(m->name), 96, "/%s", name);
    return name_check(m, err);
}

static int make_in(struct making *m, const char *dir, struct err *err)
{
    int rc = place(m, dir, err);

    rc = rc ? rc : file_new_folder(&m->folder, m->name, err);
    if (rc)
        return rc;
    m->to = m->s->run;
    m->to.dir = m->folder.temp;
    m->to.log = NULL;
    m->to.device_paths = NULL;
    m->to.layout = m->to.owner_next = NULL;
    m->to.owner = m->owner;
    m->list = open_memstream(&m->names, &m->names_size);
    if (!m->list)
        rc = err_set(err, -ENOMEM, "out of memory for the names of a snapshot's files");
    rc = rc ? rc : machine_hex(m->owner, sizeof m->owner - 1, err);
    rc = rc ? rc : fill(m, err);
    rc = rc ? rc : prove(m, err);
    rc = rc ? rc : record(m, err);
    rc = rc ? rc : take_name(m, err);
    if (m->list)
        fclose(m->list);
    free(m->names);
    m->names = NULL; // for the next directory
    file_new_abort(&m->folder);
    return rc;
}

int snapshot_can(const struct session *s, struct err *err)
{
    if (s->run.mode != RUN_MEM && devices_fake(&s->run))
        return err_misuse(err, "%s stores no states, of which a snapshot could be taken: "
                          "--snapshot-every 0 takes none", s->dir);
    return 0;
}

int snapshot_make(struct snapshot *out, struct session *s, uint64_t step, struct err *err)
{
    const struct opt_strings *dirs = &s->o.snapshot_dir;
    struct snapshots          list;
    struct making             m = { .s = s, .step = step, .n = 1, .begun_ns = clock_ns() };
    char                      text[sizeof err->text];
    int                       rc = snapshot_can(s, err);

    if (rc || (rc = snapshots_list(&list, s, err)))
        return rc;
    if (list.n)
        m.n = list.at[list.n - 1].n + 1;
    snapshots_free(&list);
    snapshots_clean(s);
    rc = -ENOSPC;
    for (size_t i = 0; rc && rc != -EINTR && i < (dirs->n ? dirs->n : 1); i++) {
        if (i)
            snprintf(text, sizeof text, "%.900s: the next --snapshot-dir is tried", err->text);
        if (i && (rc = session_notice(s, text, err)))
            return rc;
        rc = make_in(&m, dirs->n ? dirs->item[(m.n - 1 + i) % dirs->n] : NULL, err);
    }
    if (rc)
        return rc;
    *out = (struct snapshot){ .step = step, .n = m.n, .whole = 1, .ours = 1, .loss = (double)NAN,
                              .states = m.bytes, .shared = m.shared };
    snprintf(out->path, sizeof out->path, "%.4000s", m.name);
    return 0;
}

/* ---- one that another process made ---- */

int snapshot_adopt_begin(struct making **out, const char **folder, struct session *s, uint64_t step,
                         uint64_t n, struct err *err)
{
    struct making *m = *out = calloc(1, sizeof *m);
    char           own[SESSION_PATH];

    if (!m)
        return err_set(err, -ENOMEM, "out of memory for a snapshot");
    *m = (struct making){ .s = s, .step = step, .n = n, .folder = { .fd = -1 } };
    snapshots_clean(s);
    snapshot_places_ranks(own, s);
    int rc = make_folder(own, err);
    rc = rc ? rc : place(m, own, err);
    rc = rc ? rc : file_new_folder(&m->folder, m->name, err);
    *folder = m->folder.temp;
    return rc;
}

static int adopt_settle(struct making *m, struct err *err)
{
    char db[MAKE_PATH], lock[MAKE_PATH];

    m->to.dir = m->folder.temp;
    snprintf(db, sizeof db, "%s/" RUN_DB, m->to.dir);
    snprintf(lock, sizeof lock, "%s/" RUN_LOCK, m->to.dir);
    int rc = runlog_open(&m->to.log, db, 0, 0, err);
    if (!rc && !(rc = runlog_begin(m->to.log, err))) {
        rc = store_folder(m->to.log, "place", m->to.dir, m->name, err);
        rc = rc ? rc : store_folder(m->to.log, "snapshot.of", m->s->dir, m->s->dir, err);
        rc = runlog_end(m->to.log, rc, err);
    }
    rc = rc ? rc : runlog_whole(m->to.log, err);
    runlog_close(m->to.log);
    unlink(lock);
    rc = rc ? rc : flush_log(db, err);
    return rc ? rc : file_sync_dir(m->to.dir, err);
}

int snapshot_adopt_end(struct making *m, int rc, struct snapshot *out, struct err *err)
{
    if (!m)
        return rc;
    rc = rc ? rc : adopt_settle(m, err);
    rc = rc ? rc : prove(m, err);
    rc = rc ? rc : take_name(m, err);
    if (!rc && !snapshots_look(out, m->s, m->name))
        rc = err_set(err, -EIO, "%s is no snapshot of this run", m->name);
    file_new_abort(&m->folder);
    free(m);
    return rc;
}
