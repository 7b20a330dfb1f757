/* snapshots.c: finds the snapshots of a run, says which are certainly its own, and reads one. */
#include "run/snapshots/snapshots.h"

#include "data/file/file.h"
#include "data/file/file_walk.h"
#include "data/text/tokenizer.h"
#include "offload/upkeep/verify.h"
#include "run/folder/exports.h"
#include "run/folder/settings.h"
#include "run/snapshots/portions.h"
#include "run/snapshots/snapshot_files.h"
#include "run/snapshots/snapshot_places.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- whose it is ---- */

static int is_in(const char *folder, const char *path)
{
    size_t n = strlen(folder);

    return !strncmp(path, folder, n) && path[n] == '/';
}

/* Whether the path is in RUN/snapshots. */
static int is_in_run(const struct session *s, const char *path)
{
    char own[SESSION_PATH], ranks[SESSION_PATH];

    snapshot_places_own(own, s);
    snapshot_places_ranks(ranks, s);
    return is_in(own, path) || is_in(ranks, path);
}

/* Whether another run, such as a copy of this one, stands at `was`. */
static int is_another_run(const struct session *s, const char *was)
{
    char at[FILE_IDENTITY];

    if (!was || !session_may_be_run(was))
        return 0;
    file_identity(was, at);
    return !file_is(s->dir, at);
}

/* Whether the snapshot's run.db says that it was made in the folder `path`. Returns `unknown` if it
 * does not say where. */
static int is_made_here(const char *path, struct runlog *log, int unknown)
{
    char *place = settings_get(log, "place");
    int   is = place ? file_is(path, place) : unknown;

    free(place);
    return is;
}

enum whose { NOT_OURS, LOOKS_LIKE_OURS, CERTAINLY_OURS };

/* of: the setting snapshot.of, in the snapshot's log. A copy of RUN has another inode; an image of
 * its file system, mounted elsewhere, has the same; a backup that took RUN's place has its path. A
 * copy has its own snapshots in it, and may be read from those of its original, which it never
 * removes. Nor does the original remove a copy's, which the copy may have made in RUN/snapshots,
 * even if the copy is at another path since then. A copy that stands where RUN was before it was
 * renamed has snapshots that RUN's run.db names: they are the copy's. */
static enum whose whose_is(const struct session *s, const char *path, const char *of,
                           struct runlog *log)
{
    const char *was = moved_path(of);
    char        dir[SESSION_PATH];

    snapshot_places_rank(dir, s);
    if (is_in_run(s, path))
        return file_is(s->dir, of) || !is_made_here(path, log, 0) ? CERTAINLY_OURS
               : is_another_run(s, was)                           ? NOT_OURS : LOOKS_LIKE_OURS;
    if (!s->kept_by && portions_certain(s, of))
        return !is_another_run(s, was) ? CERTAINLY_OURS
               : is_in(was, path)      ? NOT_OURS
               : is_made_here(path, log, 1) ? CERTAINLY_OURS : LOOKS_LIKE_OURS;
    int image = !s->kept_by && file_is(s->dir, of) && file_has_births(s->dir, of);
    return image || (was && !strcmp(was, dir)) ? LOOKS_LIKE_OURS : NOT_OURS;
}

/* Whether the run gives this path to a snapshot of its own, as long as it has its present name. */
static int is_own_path(const struct session *s, const char *path)
{
    char        folder[SESSION_PATH], step[64];
    const char *end = strrchr(path, '/');

    snapshot_places_names(folder, step, s, 0);
    size_t n = strlen(folder), at = end ? (size_t)(end - path) : 0;
    return is_in_run(s, path) ||
           (at > n && path[at - n - 1] == '/' && !strncmp(path + at - n, folder, n));
}

int snapshots_is_ours(const struct session *s, const char *path, struct runlog *log)
{
    char *of = log ? settings_get(log, "snapshot.of") : NULL;

    of = of || !log ? of : settings_get(log, "place"); // a copy of run.db that was only just begun
    int ours = of ? whose_is(s, path, of, log) == CERTAINLY_OURS : is_own_path(s, path);
    free(of);
    return ours;
}

/* ---- one snapshot ---- */

static int look_file(void *ctx, const char *file, uint64_t bytes)
{
    struct snapshot *at = ctx;

    at->whole &= snapshot_files_is_there(file, bytes, &at->bytes);
    return 0;
}

/* Its files on the devices' drives. */
static int look_portions(struct snapshot *at, struct runlog *log, struct err *err)
{
    struct portions p;
    int             rc = portions_load(&p, log, err);

    at->parity = p.parity;
    at->lost = portions_lost(&p, &at->lost_first);
    at->bytes += portions_held(&p);
    portions_release(&p);
    return rc;
}

/* The row of the last of `steps`, as text. The seconds that it took tell branches apart in which a
 * step gave the same loss. Of a rank whose part is kept elsewhere, another rank's seconds are
 * known. */
static int step_text(char out[SNAPSHOT_STEP], struct runlog *log, uint64_t steps,
                     const struct session *s, struct err *err)
{
    *out = '\0';
    return steps ? runlog_value(log, out, SNAPSHOT_STEP, err, "SELECT loss || ' ' || tokens || ' ' "
                                "|| %s FROM steps WHERE step = %" PRIu64,
                                s->kept_by ? "lr || ' ' || grad_norm" : "seconds", steps - 1)
                 : 0;
}

/* What its run.db says. 1: it is a snapshot of this run, or may be. 0: it is not. -errno: its
 * run.db cannot be read. */
static int look_log(struct snapshot *at, const struct session *s, struct runlog *log,
                    struct err *err)
{
    char  id[sizeof s->id] = "", *of = settings_get(log, "snapshot.of");
    char *files = settings_get(log, "snapshot.files");
    int   known = settings_scan(log, "%" SCNu64, &at->step, "snapshot") &&
                  settings_scan(log, "%" SCNu64, &at->n, "snapshot.n") && of && files &&
                  !runlog_get(log, "id", id, sizeof id, NULL) && !strcmp(id, s->id);
    enum whose whose = known ? whose_is(s, at->path, of, log) : NOT_OURS;
    struct stat st;

    at->ours = whose == CERTAINLY_OURS;
    at->whole = known;
    at->whole = known && !snapshot_files_each(at->path, files, look_file, at) && at->whole;
    int rc = at->whole ? look_portions(at, log, err) : 0;
    at->files = at->whole = at->whole && !rc;
    at->whole = at->whole && !at->lost;
    if (known && !stat(runlog_path(log), &st))
        at->bytes += (uint64_t)st.st_blocks * 512;
    runlog_get(log, "snapshot.taken", at->taken, sizeof at->taken, NULL);
    if (known && !file_is_unread(rc) && !(rc = step_text(at->last, log, at->step, s, err)) &&
        *at->last)
        at->loss = strtod(at->last, NULL);
    free(of);
    free(files);
    rc = file_is_unread(rc) ? rc : runlog_unread(log, err);
    return rc ? rc : whose != NOT_OURS;
}

const struct snapshot *snapshots_newest_next_to(const struct snapshots *list, const char *path)
{
    const char *base = strrchr(path, '/');
    size_t      n = base ? (size_t)(base - path) : 0;

    for (size_t i = list->n; i-- > 0;) {
        const struct snapshot *at = &list->at[i];

        if (at->whole && at->ours && !strncmp(at->path, path, n) && at->path[n] == '/')
            return at;
    }
    return NULL;
}

int snapshots_look(struct snapshot *at, const struct session *s, const char *path, struct err *err)
{
    struct runlog *log = NULL;

    *at = (struct snapshot){ .loss = (double)NAN };
    snprintf(at->path, sizeof at->path, "%s", path);
    char *real = file_real(path);
    if (!real)
        return file_is_absent(errno) ? 0 : err_set(err, -errno, "%s: %s", path, strerror(errno));
    snprintf(at->path, sizeof at->path, "%s", real);
    free(real);
    int rc = runlog_open_in(&log, at->path, 1, err);
    int found = rc ? rc : look_log(at, s, log, err);
    runlog_close(log);
    return found == -ENOENT || found == -ENOTDIR ? 0 : found;
}

/* ---- all snapshots ---- */

/* A snapshot may be seen by two paths, as of a drive that is mounted twice. */
static int is_known(const struct snapshots *list, const char *path)
{
    struct stat here, there;

    for (size_t i = 0; i < list->n; i++)
        if (!strcmp(list->at[i].path, path) ||
            (!stat(list->at[i].path, &there) && !stat(path, &here) && file_same(&there, &here)))
            return 1;
    return 0;
}

/* Notes that a folder may hold snapshots, or be that of `step`, and cannot be read: the first of
 * them. */
static void note_unread(struct snapshots *list, uint64_t step, int rc, const struct err *why)
{
    if (list->unread)
        return;
    list->unread = rc;
    list->unread_step = step;
    list->unread_why = *why;
}

/* The step in the path of a snapshot's folder (snapshot_places_is_step). */
static uint64_t step_of(const char *path)
{
    return strtoull(strrchr(path, '/') + strlen("/step-"), NULL, 10);
}

/* True if the folder's run.db is there and does not begin as a database does. A run.db of another
 * siTrain, or of another program, does. */
static int has_no_database(const char *path)
{
    static const char magic[] = "SQLite format 3";
    char  begin[sizeof magic] = "", *db = file_path(NULL, "%s/run.db", path);
    int   fd = db ? open(db, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    int   no = fd >= 0 && read(fd, begin, sizeof begin) >= 0 && memcmp(begin, magic, sizeof magic);

    file_close(fd);
    free(db);
    return no;
}

int snapshots_is_damaged(const struct session *s, const char *path)
{
    struct stat    st;
    struct err     unsaid;
    struct runlog *log = NULL;
    int            rc = is_in_run(s, path) && !lstat(path, &st) && S_ISDIR(st.st_mode)
                            ? runlog_open_in(&log, path, 1, &unsaid) : 0;

    runlog_close(log);
    return rc == -EBADMSG || (rc == -EINVAL && has_no_database(path));
}

static int add(struct snapshots *list, const struct session *s, const char *path, struct err *err)
{
    struct snapshot at, *grown;
    struct err      why;
    int             found = snapshots_look(&at, s, path, &why);

    if (found < 0) // it may be the run's
        note_unread(list, step_of(path), found, &why);
    if (found <= 0 || is_known(list, at.path))
        return 0;
    if (!(grown = realloc(list->at, (list->n + 1) * sizeof *grown)))
        return err_set(err, -ENOMEM, "out of memory for %zu snapshots", list->n + 1);
    list->at = grown;
    grown[list->n++] = at;
    return 0;
}

struct listing { struct snapshots *list; const struct session *s; struct err *err; int rc; };

static int list_folder(void *ctx, const char *folder, int unread, const struct err *around)
{
    struct listing  *l = ctx;
    struct file_walk w;
    struct err       why;
    int              rc = 0;

    if (unread) {
        note_unread(l->list, UINT64_MAX, unread, around);
        return 0;
    }
    unread = file_walk_begin(&w, folder, &why);
    while (!rc && file_walk_next(&w))
        if (snapshot_places_is_step(l->s, w.name))
            rc = add(l->list, l->s, w.path, l->err);
    unread = file_walk_end(&w, unread ? unread : rc, &why);
    if (!rc && file_is_unread(unread)) // there may be more
        note_unread(l->list, UINT64_MAX, unread, &why);
    return rc;
}

/* A row of run.db's table: in a directory that is an option no more. */
static int list_row(void *ctx, int n, const char **values, const char **names)
{
    struct listing *l = ctx;

    (void)n, (void)names;
    return l->rc = values[0] ? add(l->list, l->s, values[0], l->err) : 0;
}

static int by_n(const void *a, const void *b)
{
    const struct snapshot *x = a, *y = b;

    return (x->n > y->n) - (x->n < y->n);
}

int snapshots_find(struct snapshots *out, const struct session *s, struct err *err)
{
    struct listing l = { .list = out, .s = s, .err = err };

    *out = (struct snapshots){ 0 };
    int rc = snapshot_places_each(s, list_folder, &l);
    if (out->n)
        qsort(out->at, out->n, sizeof *out->at, by_n);
    return rc;
}

int snapshots_list(struct snapshots *out, const struct session *s, struct err *err)
{
    struct listing l = { .list = out, .s = s, .err = err };
    int            rc = snapshots_find(out, s, err);

    if (!rc) // a run of an older version has no such table
        runlog_query(s->log, "SELECT path FROM snapshots", list_row, &l, NULL);
    if (out->n)
        qsort(out->at, out->n, sizeof *out->at, by_n);
    return rc ? rc : l.rc;
}

void snapshots_free(struct snapshots *list)
{
    free(list->at);
    *list = (struct snapshots){ 0 };
}

static const struct snapshot *find(const struct snapshots *list, uint64_t step)
{
    for (size_t i = list->n; i-- > 0;)
        if (list->at[i].whole && list->at[i].step == step)
            return &list->at[i];
    return NULL;
}

const struct snapshot *snapshots_newest(const struct snapshots *list)
{
    for (size_t i = list->n; i-- > 0;)
        if (list->at[i].whole)
            return &list->at[i];
    return NULL;
}

int snapshot_by_parity(const struct snapshot *at)
{
    return !at->whole && at->files && at->parity && at->lost <= at->parity;
}

int snapshots_any_by_parity(const struct snapshots *list)
{
    for (size_t i = 0; i < list->n; i++)
        if (snapshot_by_parity(&list->at[i]))
            return 1;
    return 0;
}

/* The steps of all whole ones, such as "0, 400 and 800". */
static void steps_text(const struct snapshots *list, char *out, size_t size)
{
    const struct snapshot *last = snapshots_newest(list);
    size_t                 n = 0;

    *out = '\0';
    for (const struct snapshot *at = list->at; last && at <= last && n < size; at++)
        if (at->whole)
            n += (size_t)snprintf(out + n, size - n, "%s%" PRIu64,
                                  !n ? "" : at == last ? " and " : ", ", at->step);
}

/* Says why there is no whole one. */
static int no_step(const struct snapshots *list, const struct session *s, uint64_t step,
                   struct err *err)
{
    char steps[512], line[SESSION_LINE];

    for (const struct snapshot *at = list->at; at < list->at + list->n; at++)
        if (at->step == step && snapshot_by_parity(at))
            return err_misuse(err, "the snapshot after step %" PRIu64 " lacks files on device %zu,"
                              " which its parity has: first %s", step, at->lost_first,
                              session_ranks_line(line, s, "restore"));
    if (list->unread && (list->unread_step == UINT64_MAX || list->unread_step == step))
        return err_set(err, list->unread, "%s has no snapshot after step %" PRIu64 " that can "
                       "be read: %s", s->dir, step, list->unread_why.text);
    steps_text(list, steps, sizeof steps);
    return err_misuse(err, "%s has no snapshot after step %" PRIu64 "%s%s", s->dir, step,
                      *steps ? ": there are snapshots after the steps "
                             : "; it has none at all", steps);
}

int snapshots_step(struct snapshot *out, const struct session *s, uint64_t step, struct err *err)
{
    struct snapshots       list;
    const struct snapshot *at = NULL;
    int                    rc = snapshots_list(&list, s, err);

    if (!rc && !(at = find(&list, step)))
        rc = no_step(&list, s, step, err);
    if (at)
        *out = *at;
    snapshots_free(&list);
    return rc;
}

int snapshot_is_now(const struct snapshot *at, const struct session *s)
{
    char is[SNAPSHOT_STEP];

    return !step_text(is, s->log, at->step, s, NULL) && !strcmp(at->last, is);
}

const struct snapshot *snapshots_present(const struct snapshots *list, const struct session *s,
                                         uint64_t step)
{
    for (size_t i = 0; i < list->n; i++) {
        const struct snapshot *at = &list->at[i];

        if (at->whole && at->step == step && snapshot_is_now(at, s))
            return at;
    }
    return NULL;
}

/* ---- reading ---- */

struct verdict { uint64_t damaged; struct err first; };

static void note(void *ctx, int damage, const char *sentence)
{
    struct verdict *v = ctx;

    if (damage && v->damaged++ == 0)
        err_set(&v->first, -EBADMSG, "%s", sentence);
}

static void note_damage(void *ctx, const char *sentence) { note(ctx, 1, sentence); }

/* Reads its best model, which may be another one than run.db says, if RUN's is. 1: *best says what
 * was found; 0: it has none; -EINTR: asked to end. */
static int look_at_best(struct exported *best, struct session *snapshot, struct err *err)
{
    int any = exports_look(best, snapshot->log, snapshot->dir, EXPORTS_BEST, snapshot->events);

    return any && best->why.stopped ? err_stopped(err, "%s", best->why.text) : any;
}

/* Whether the parity of a snapshot is as it was written. Its portions were read. */
static int look_at_parity(struct session *snapshot, const struct portions *p,
                          struct beside *beside, struct verdict *found, struct err *err)
{
    struct parity_files f = { .snapshot = &snapshot->run, .beside = beside };

    settings_scan(snapshot->log, "%" SCNu64, &f.step, "snapshot");
    if (p->n != snapshot->run.n_devices || !snapshot->run.device_paths) {
        note(found, 1, "the settings of the snapshot's parity are damaged");
        return 0;
    }
    struct watch w = work_begin(snapshot->events, "checking the parity of %s", snapshot->dir);

    f.watch = &w;
    portions_parity(&f, p);
    int rc = parity_check(&f, err);
    work_end(snapshot->events);
    if (!rc && f.damaged)
        note(found, 1, f.first.text);
    return rc;
}

int snapshot_check(struct session *snapshot, struct err *err)
{
    struct exported best;
    int             rc = snapshot_verify(snapshot, err);

    rc = rc ? rc : session_check_tokenizer(snapshot, err);
    rc = rc ? rc : look_at_best(&best, snapshot, err);
    if (rc > 0)
        rc = best.state != EXPORTS_OTHER
                 ? 0
                 : err_set(err, -EBADMSG, "%s is not the model that run.db names as the best after "
                           "step %" PRIu64, best.path, best.step);
    return rc;
}

/* Its states, and their parity. */
static int look_at_states(struct session *snapshot, int frozen_known, struct beside *beside,
                          struct verdict *found, struct err *err)
{
    struct watch    w = work_begin(snapshot->events, "checking %s", snapshot->dir);
    struct verify   v = { .say = note, .ctx = found, .watch = &w, .frozen_known = frozen_known,
                          .beside = beside };
    struct portions p;
    int             rc = portions_load(&p, snapshot->log, err);

    v.link = p.n ? LINK_HOST : LINK_FILES;
    if (beside)
        beside->cls = CLASS_SNAPSHOT;
    rc = rc ? rc : verify_run(&v, &snapshot->run, err);
    if (beside)
        beside->cls = CLASS_PARITY;
    work_end(snapshot->events);
    rc = rc || !p.n ? rc : look_at_parity(snapshot, &p, beside, found, err);
    portions_release(&p);
    return rc || !v.half_done ? rc : err_set(err, -EBADMSG, "%s is in the middle of a step",
                                             snapshot->dir);
}

/* Adds what was found in run.db and in the best model. Returns a sentence about the first. */
static int look_at_rest(struct session *snapshot, struct verdict *found, struct err *err)
{
    struct runlog_check db;
    struct exported     best;
    int                 rc = runlog_check(snapshot->log, 0, note_damage, found, &db, err);

    rc = rc ? rc : look_at_best(&best, snapshot, err);
    if (rc < 0)
        return rc;
    if (rc && best.state == EXPORTS_DAMAGED)
        note(found, 1, best.why.text);
    return found->damaged ? err_set(err, -EBADMSG, "%s", found->first.text) : 0;
}

int snapshot_prove(struct session *snapshot, int frozen_known, struct beside *beside,
                   struct err *err)
{
    struct verdict found = { 0 };
    int            rc = look_at_states(snapshot, frozen_known, beside, &found, err);

    return rc ? rc : look_at_rest(snapshot, &found, err);
}

int snapshot_prove_rest(struct session *snapshot, struct err *err)
{
    return look_at_rest(snapshot, &(struct verdict){ 0 }, err);
}

int snapshot_verify(struct session *snapshot, struct err *err)
{
    return snapshot_prove(snapshot, 0, NULL, err);
}

int snapshot_read(const char *path, snapshot_reader *read, const struct events *events,
                  struct err *err)
{
    struct session s;
    int            rc = session_open(&s, path, SESSION_READ, events, err);

    rc = rc ? rc : read(&s, err);
    session_close(&s);
    return rc;
}

int snapshot_is_whole(const char *path, snapshot_reader *read, const struct events *events,
                      struct err *err)
{
    int rc = snapshot_read(path, read, events, err);

    return !rc ? 1 : err->stopped || rc == -ENOMEM ? rc : 0;
}
