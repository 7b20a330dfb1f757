/* snapshot_make.c: fills the folder of a snapshot, proves it whole and gives it its name.
 *
 * Each file is noted before it is made, and its size when all are there: by this list
 * (snapshot.files) the snapshot is known to be complete, and removed. A failure removes what was
 * made, and is no failure of the run.
 *
 * What belongs to the commit and changes with the next step is copied first: run.db, and next to it
 * the tokenizer and the best model. The states follow, by the journal of that copy. While a
 * training goes on, that is a thread's, which has the snapshot's database and writes nothing else.
 * The run's own database is the caller's thread's alone. */
#include "run/snapshots/snapshot_make.h"

#include "csd/csd.h"
#include "data/base/clock.h"
#include "data/file/file.h"
#include "data/file/file_walk.h"
#include "data/base/machine.h"
#include "data/base/thread.h"
#include "data/db/ledger.h"
#include "data/text/tokenizer.h"
#include "model/file/hf.h"
#include "offload/devices/devices.h"
#include "offload/devices/image.h"
#include "offload/upkeep/snapshot.h"
#include "run/folder/output.h"
#include "run/folder/run_files.h"
#include "run/folder/settings.h"
#include "run/snapshots/portions.h"
#include "run/snapshots/snapshot_files.h"
#include "run/snapshots/snapshot_log.h"
#include "run/snapshots/snapshot_places.h"
#include "run/snapshots/snapshot_removal.h"

#include <fcntl.h>
#include <malloc.h>
#include <math.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAKE_PATH = SESSION_PATH + 128, WAIT_US = 1000 };

struct snapshot_making {
    struct session   *s;
    const struct events *events;        // of the copying: the session's, or those of the thread
    uint64_t          step, n;
    size_t            tried;            // directories, the present one included
    char              name[MAKE_PATH];  // DIR/NAME-ID/step-00000400
    struct file_new   folder;           // the folder that is filled
    struct run_config to;               // of the snapshot
    char              owner[SUPERBLOCK_WORD];
    struct snapshot_files files;
    uint64_t          begun_ns, bytes, shared;
    int               named;            // it gets its name, or has it
    struct portions   portions;         // files on the devices' drives; n 0: none
    struct beside     beside;           // the pace; stream NULL: no training goes on meanwhile
    // while a training goes on
    struct thread     copier;
    int               over, rc;         // under its lock: it has ended, with rc and why
    struct err        why;
    struct events     told;             // the copier's
    atomic_int        dropped;          // it is to end
    atomic_uint_fast64_t done, total;   // its progress in bytes; total 0: not known
    struct snapshots  known;            // all that there are, while it is begun
    char              *earlier;         // a snapshot whose file of frozen blocks it shares, or NULL
    int                linked;          // it does
};

/* ---- its files ---- */

static int copy_states(struct snapshot_making *m, struct err *err)
{
    struct watch         w = work_begin(m->events, "copying the states of %s after step %" PRIu64
                                        " to a snapshot", m->s->dir, m->step);
    struct snapshot_take t = { .run = &m->s->run, .to = &m->to, .log = m->to.log, .watch = &w,
                               .earlier = m->earlier,
                               .beside = &m->beside,
                               .made = snapshot_files_note,
                               .ctx = &m->files };

    m->beside.cls = CLASS_SNAPSHOT;
    int rc = snapshot_take(&t, err);
    work_end(m->events);
    if (m->beside.stream)
        stream_hold_end(m->beside.stream);
    m->bytes = t.bytes;
    m->shared = t.shared;
    m->linked = t.linked;
    return rc;
}

/* The parity of portions that lie on the devices' drives, by the journal of the snapshot. */
static int encode_parity(struct snapshot_making *m, struct err *err)
{
    if (!m->portions.n)
        return 0;
    struct watch w = work_begin(m->events, "computing the parity of the snapshot after step %"
                                PRIu64, m->step);

    m->beside.cls = CLASS_PARITY;
    int rc = portions_encode(&m->portions, &m->to, m->step, &w, &m->beside, err);
    work_end(m->events);
    return rc;
}

static int is_tokenizers(const char *name)
{
    const char *known;

    for (size_t i = 0; (known = tokenizer_file(i)); i++)
        if (!strcmp(name, known))
            return 1;
    return 0;
}

/* ---- its run.db ---- */

static struct snapshot_log log_of(const struct snapshot_making *m)
{
    return (struct snapshot_log){ .s = m->s, .to = &m->to, .name = m->name, .owner = m->owner,
                                  .step = m->step, .n = m->n, .portions = m->portions.n > 0 };
}

/* Of a full disk, run.db's sentence is that of a run that cannot go on. */
static int db_failed(const struct snapshot_making *m, int rc, struct err *err)
{
    return rc == -ENOSPC ? err_set(err, rc, "%s/" RUN_DB ": the disk is full", m->to.dir) : rc;
}

/* What differs from the run's database whatever its states are: whoever opens it takes it for
 * nothing but a snapshot. */
static int settle_begun(struct snapshot_making *m, struct err *err)
{
    struct snapshot_log l = log_of(m);
    int                 rc = runlog_begin(m->to.log, err);

    return rc ? rc : runlog_end(m->to.log, snapshot_log_settle(&l, err), err);
}

/* Stores the rest of the snapshot's settings, when all its files are there. */
static int settle_whole(struct snapshot_making *m, struct err *err)
{
    struct snapshot_log l = log_of(m);
    char               *files = snapshot_files_text(&m->files, 0, err);
    char               *times = files ? snapshot_files_text(&m->files, 1, err) : NULL;
    int                 rc = times ? runlog_begin(m->to.log, err) : -ENOMEM;

    if (!rc) {
        rc = snapshot_log_states(&l, err);
        if (!rc && m->portions.n)
            rc = portions_store(&m->portions, m->to.log, err);
        rc = rc ? rc : runlog_set(m->to.log, "snapshot.files", files, err);
        rc = rc ? rc : runlog_set(m->to.log, "snapshot.times", times, err);
        rc = runlog_end(m->to.log, rc, err);
    }
    free(files);
    free(times);
    return rc;
}

/* ---- the folder ---- */

/* Copies what the next step changes: run.db, and the best model. */
static int pin(struct snapshot_making *m, struct err *err)
{
    char db[MAKE_PATH];

    snprintf(db, sizeof db, "%s/" RUN_DB, m->to.dir);
    int rc = snapshot_files_copy(&m->files, m->s->dir, "tokenizer", is_tokenizers, err);
    if (!rc && settings_has(m->s->log, "best.step"))
        rc = snapshot_files_copy(&m->files, m->s->dir, "best", output_is_model, err);
    if (rc)
        return rc;
    rc = runlog_copy(m->s->log, db, err);
    rc = rc ? rc : runlog_open(&m->to.log, db, 0, 0, err);
    return db_failed(m, rc ? rc : settle_begun(m, err), err);
}

static int fill(struct snapshot_making *m, struct err *err)
{
    int rc = copy_states(m, err);

    rc = rc ? rc : encode_parity(m, err);
    int db = snapshot_log_close(&m->to.log, m->to.dir, rc ? rc : settle_whole(m, err), err);
    return rc ? rc : db_failed(m, db, err);
}

/* Reads what was written back from the drive. */
static int prove(struct snapshot_making *m, struct err *err)
{
    struct session made;
    flock(m->folder.fd, LOCK_SH); // as a reader has it
    int rc = session_open(&made, m->to.dir, SESSION_READ, m->events, err);

    rc = rc ? rc : snapshot_prove(&made, m->linked, &m->beside, err);
    session_close(&made);
    return rc == -EINTR || !rc ? rc : err_set(err, rc, "%s; the snapshot was not kept",
                                              err->text);
}

/* Refuses the name if something has it that is not certainly a snapshot of this run: of two runs
 * with one id, a copy and its original, each has its own. */
static int name_check(const struct snapshot_making *m, struct err *err)
{
    struct snapshot at;
    struct stat     st;

    if (lstat(m->name, &st))
        return errno == ENOENT ? 0 : err_set(err, -errno, "%s: %s", m->name, strerror(errno));
    int found = S_ISDIR(st.st_mode) ? snapshots_look(&at, m->s, m->name, err) : 0;
    if (file_is_unread(found))
        return found;
    if (found > 0 && at.ours)
        return 0;
    return err_set(err, -EEXIST, "%s is not certainly a snapshot of this run (it may be that of a "
                   "copy of it), so it stays, and no new one takes its name: move it elsewhere, or "
                   "name another --snapshot-dir", m->name);
}

/* Gives the folder its name. A snapshot of the same step, of a branch that the run has left, goes
 * when the new one is there. If it cannot go, the next rotation removes it. */
static int take_name(struct snapshot_making *m, struct err *err)
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
            snapshot_replaced(m->s, f->temp, m->name, &unsaid);
        file_new_keep(f);
        return rc;
    }
    if (!file_lacks_flags(errno))
        return err_set(err, -errno, "rename %s to %s: %s", f->temp, m->name, strerror(errno));
    rc = snapshot_replaced(m->s, m->name, m->name, err); // the new one is whole already
    return rc ? rc : file_new_commit(f, err);
}

static int record(const struct snapshot_making *m, struct err *err)
{
    return runlog_snapshot(m->s->log,
                           &(struct runlog_snapshot){
                               .n = m->n, .step = m->step, .path = m->name, .bytes = m->bytes,
                               .shared = m->shared,
                               .seconds = (double)(clock_ns() - m->begun_ns) * 1e-9 }, err);
}

/* The folder DIR/NAME-ID, made if it is not there, and the snapshot's name in it. */
static int place(struct snapshot_making *m, const char *dir, struct err *err)
{
    char folder[SESSION_PATH], name[64], own[SESSION_PATH];

    snapshot_places_own(own, m->s);
    int rc = dir ? output_check_snapshots(dir, err) // it may be a link by now
                 : file_have_folder(own, m->s->dir, err);
    if (rc)
        return rc;
    dir = dir ? dir : own;
    snapshot_places_names(folder, name, m->s, m->step);
    rc = snapshot_places_fits(m->s, dir, err);
    snprintf(m->name, SESSION_PATH, "%.3000s/%.1000s", dir, folder);
    if (rc || (rc = file_have_folder(m->name, m->s->dir, err)))
        return rc;
    snprintf(m->name + strlen(m->name), 96, "/%s", name);
    rc = snapshot_put_aside(m->s, m->name, err);
    return rc ? rc : name_check(m, err);
}

/* With --snapshot-on devices: the states lie on the devices' drives. */
static int begin_portions(struct snapshot_making *m, struct err *err)
{
    if (m->s->o.snapshot_on != TRAIN_SNAPSHOTS_DEVICES)
        return 0;
    int rc = portions_begin(&m->portions, m->s, m->step, m->owner, m->folder.temp, err);
    if (rc)
        return rc;
    m->to.device_paths = m->portions.path;
    return 0;
}

/* Forgets the files on the devices' drives, of a snapshot that has its name or was not made. The
 * latter's are removed; if it failed as it got its name, by the next snapshots_clean, which looks
 * at its name. */
static void end_portions(struct snapshot_making *m)
{
    if (m->portions.n && !m->named) // portions.begun goes with the next snapshots_clean: a stream
        portions_remove(&m->portions); // that has failed may be using run.db
    m->to.device_paths = NULL;
    portions_release(&m->portions);
}

/* Makes the snapshot's folder. Nobody may see more of it than of RUN. */
static int begin_folder(struct snapshot_making *m, struct err *err)
{
    int rc = file_new_folder(&m->folder, m->name, err);

    if (!rc)
        file_like_writable(m->folder.fd, m->s->dir);
    return rc;
}

/* Makes the folder and what is copied at once. */
static int begin_in(struct snapshot_making *m, const char *dir, struct err *err)
{
    const struct snapshot *earlier;
    int                    rc = place(m, dir, err);

    if (!rc && m->s->run.mode == RUN_MEM &&
        (earlier = snapshots_newest_next_to(&m->known, m->name)) &&
        !(m->earlier = strdup(earlier->path)))
        rc = err_set(err, -ENOMEM, "out of memory for a snapshot");
    rc = rc ? rc : begin_folder(m, err);
    if (rc)
        return rc;
    m->to = m->s->run;
    m->to.dir = m->folder.temp;
    m->to.log = NULL;
    m->to.device_paths = NULL;
    m->to.layout = m->to.owner_next = NULL;
    m->to.owner = m->owner;
    rc = snapshot_files_begin(&m->files, m->to.dir, err);
    rc = rc ? rc : machine_hex(m->owner, sizeof m->owner - 1, err);
    rc = rc ? rc : begin_portions(m, err);
    return rc ? rc : pin(m, err);
}

static int copy_rest(struct snapshot_making *m, struct err *err)
{
    int rc = fill(m, err);

    return rc ? rc : prove(m, err);
}

/* Removes what was made in this directory. */
static void clear(struct snapshot_making *m)
{
    runlog_close(m->to.log);
    m->to.log = NULL;
    free(m->earlier);
    m->earlier = NULL;
    m->linked = 0;
    snapshot_files_end(&m->files);
    end_portions(m);
    file_new_abort(&m->folder);
}

/* ---- next to a training ---- */

static int asked_to_drop(void *m) { return atomic_load(&((struct snapshot_making *)m)->dropped); }

static void note_progress(void *making, uint64_t done, uint64_t total)
{
    struct snapshot_making *m = making;

    if (!total) // of a wait
        return;
    atomic_store(&m->done, done);
    atomic_store(&m->total, total);
}

static int copier_work(void *making)
{
    struct snapshot_making *m = making;

    if (m->over)
        return 0;
    thread_unlock(&m->copier);
    int rc = copy_rest(m, &m->why);
    stream_hold_end(m->beside.stream);
    thread_lock(&m->copier);
    m->rc = rc;
    m->over = 1;
    return 0;
}

static int copier_start(struct snapshot_making *m, struct stream *stream, struct err *err)
{
    m->beside.stream = stream;
    m->told = (struct events){ .ctx = m, .asked_to_stop = asked_to_drop,
                               .work_goes_on = note_progress };
    m->events = &m->told;
    stream_hold(stream);
    thread_init(&m->copier, copier_work, m);
    int rc = thread_start(&m->copier, "copier", err);
    if (rc)
        stream_hold_end(stream);
    return rc;
}

/* ---- the calls ---- */

int snapshot_can(const struct session *s, struct err *err)
{
    if (s->run.mode != RUN_MEM && devices_fake(&s->run))
        return err_misuse(err, "%s stores no states, so there is nothing to take a snapshot of: "
                          "give --snapshot-every 0", s->dir);
    return 0;
}

void snapshot_drop(struct snapshot_making *m)
{
    if (!m)
        return;
    atomic_store(&m->dropped, 1);
    atomic_store(&m->beside.hurry, 1);
    thread_release(&m->copier);
    clear(m);
    snapshots_free(&m->known);
    free(m);
    malloc_trim(0); // or the threads' arenas keep what the copier has freed
}

static int number(struct snapshot_making *m, struct err *err)
{
    int rc = snapshots_list(&m->known, m->s, err);

    m->n = 1 + (!rc && m->known.n ? m->known.at[m->known.n - 1].n : 0);
    snapshots_clean(m->s);
    return rc;
}

int snapshot_begin(struct snapshot_making **out, struct session *s, const struct snapshot_ask *ask,
                   struct err *err)
{
    const struct opt_strings *dirs = &s->o.snapshot_dir;
    struct snapshot_making   *m = calloc(1, sizeof *m);
    int                       rc = snapshot_can(s, err);

    *out = NULL;
    if (rc || !m)
        return free(m), rc ? rc : err_set(err, -ENOMEM, "out of memory for a snapshot");
    *m = (struct snapshot_making){ .s = s, .events = s->events, .step = ask->step,
                                   .tried = ask->tried, .begun_ns = clock_ns() };
    m->beside.rate = s->o.snapshot_bw;
    rc = number(m, err);
    while (!rc) {
        const char *dir = m->tried < dirs->n ? dirs->item[(m->n - 1 + m->tried) % dirs->n] : NULL;

        m->tried++;
        rc = begin_in(m, dir, err);
        rc = rc ? rc : ask->beside ? copier_start(m, ask->beside, err) : copy_rest(m, err);
        if (!rc) {
            snapshots_free(&m->known);
            return *out = m, 0;
        }
        clear(m);
        snapshots_clean(s);
        if (rc == -EINTR || m->tried >= dirs->n + (ask->in_run || !dirs->n))
            break;
        rc = session_notice(s, err, "%s: %s is tried", err->text,
                            m->tried < dirs->n ? "the next --snapshot-dir" : "RUN/snapshots");
    }
    snapshot_drop(m);
    return rc;
}

size_t snapshot_tried(const struct snapshot_making *m) { return m->tried; }

void snapshot_moved(struct snapshot_making *m, struct link_meter *moved)
{
    beside_take(&m->beside, moved);
}

int snapshot_over(struct snapshot_making *m)
{
    thread_lock(&m->copier);
    int over = m->over;
    thread_unlock(&m->copier);
    return over;
}

int snapshot_wait(struct snapshot_making *m, struct err *err)
{
    struct watch w;
    int          rc = 0;

    if (!m->beside.stream)
        return 0;
    atomic_store(&m->beside.hurry, 1);
    w = work_begin(m->s->events, "copying the states of %s after step %" PRIu64 " to a snapshot",
                   m->s->dir, m->step);
    while (!snapshot_over(m) && !rc) {
        rc = watch_look(&w, atomic_load(&m->done), atomic_load(&m->total), err);
        usleep(WAIT_US);
    }
    work_end(m->s->events);
    if (rc || !m->rc)
        return rc;
    *err = m->why;
    return m->rc;
}

int snapshot_finish(struct snapshot *out, struct snapshot_making *m, struct err *err)
{
    thread_release(&m->copier);
    int rc = m->rc;

    if (rc)
        *err = m->why;
    rc = rc ? rc : record(m, err);
    m->named = !rc;
    rc = rc ? rc : take_name(m, err);
    if (!rc && m->portions.n)
        rc = portions_end(m->s, err);
    if (!rc) {
        *out = (struct snapshot){ .step = m->step, .n = m->n, .whole = 1, .ours = 1,
                                  .loss = (double)NAN };
        snprintf(out->path, sizeof out->path, "%.4000s", m->name);
    }
    snapshot_drop(m);
    return rc;
}

int snapshot_make(struct snapshot *out, struct session *s, uint64_t step, struct err *err)
{
    struct snapshot_ask     ask = { .step = step, .in_run = 1 };
    struct snapshot_making *m;
    int                     rc = snapshot_begin(&m, s, &ask, err);

    return rc ? rc : snapshot_finish(out, m, err);
}

/* ---- one that another process made ---- */

int snapshot_adopt_begin(struct snapshot_making **out, const char **folder, struct session *s,
                         uint64_t step, uint64_t n, struct err *err)
{
    struct snapshot_making *m = *out = calloc(1, sizeof *m);
    char           own[SESSION_PATH];

    if (!m)
        return err_set(err, -ENOMEM, "out of memory for a snapshot");
    *m = (struct snapshot_making){ .s = s, .step = step, .n = n, .folder = { .fd = -1 } };
    snapshots_clean(s);
    snapshot_places_ranks(own, s);
    int rc = file_have_folder(own, s->dir, err);
    rc = rc ? rc : place(m, own, err);
    rc = rc ? rc : begin_folder(m, err);
    *folder = m->folder.temp;
    return rc;
}

static int note_listed(void *making, const char *path, uint64_t size)
{
    struct snapshot_making *m = making;
    struct err              unsaid;

    (void)size;
    return snapshot_files_note(&m->files, path + strlen(m->to.dir) + 1, &unsaid);
}

/* Its files have other times here. */
static int adopt_settle(struct snapshot_making *m, struct err *err)
{
    struct snapshot_log l = log_of(m);
    char               *files = NULL, *times = NULL;

    m->to.dir = m->folder.temp;
    int rc = snapshot_files_begin(&m->files, m->to.dir, err);
    rc = rc ? rc : runlog_open_in(&m->to.log, m->to.dir, 0, err);
    rc = rc ? rc : settings_find(&files, m->to.log, err, "snapshot.files");
    if (!rc && (!files || snapshot_files_each(m->to.dir, files, note_listed, m)))
        rc = err_set(err, -EBADMSG, "%s has no list of its files", m->to.dir);
    free(files);
    rc = rc || (times = snapshot_files_text(&m->files, 1, err)) ? rc : -ENOMEM;
    if (!rc && !(rc = runlog_begin(m->to.log, err))) {
        rc = snapshot_log_place(&l, err);
        rc = rc ? rc : runlog_set(m->to.log, "snapshot.times", times, err);
        rc = runlog_end(m->to.log, rc, err);
    }
    free(times);
    snapshot_files_end(&m->files);
    return snapshot_log_close(&m->to.log, m->to.dir, rc, err);
}

int snapshot_adopt_end(struct snapshot_making *m, int rc, struct snapshot *out,
                       struct link_meter *moved, struct err *err)
{
    if (!m)
        return rc;
    rc = rc ? rc : adopt_settle(m, err);
    rc = rc ? rc : prove(m, err);
    snapshot_moved(m, moved);
    rc = rc ? rc : take_name(m, err);
    int found = rc ? rc : snapshots_look(out, m->s, m->name, err);
    rc = found > 0 ? 0
         : found   ? found : err_set(err, -EIO, "%s is no snapshot of this run", m->name);
    file_new_abort(&m->folder);
    free(m);
    return rc;
}
