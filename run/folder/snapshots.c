/* snapshots.c: finds snapshots by the folders that run.db names, and removes old ones.
 *
 * A snapshot is removed by its own list of files, name by name. First it gets another name, under
 * which nobody takes it for a snapshot; after a kill the next rotation goes on. What somebody else
 * put into it stays, and so does its folder. */
#include "run/folder/snapshots.h"

#include "data/base/file.h"
#include "data/base/file_walk.h"
#include "offload/upkeep/verify.h"
#include "run/folder/exports.h"
#include "run/folder/settings.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <math.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char own_folder[] = "snapshots", gone[] = ".gone";

enum { STEP_ROW = 128 };

/* ---- names ---- */

/* The length of RUN's path: without the end of a rank's. */
static size_t run_length(const struct session *s)
{
    char   tail[32];
    size_t n = strlen(s->dir),
           end = (size_t)snprintf(tail, sizeof tail, ".rank%zu", s->ranks.rank);

    return s->ranks.rank && n > end && !strcmp(s->dir + n - end, tail) ? n - end : n;
}

void snapshots_own_dir(char out[SESSION_PATH], const struct session *s)
{
    char run[SESSION_PATH];

    snprintf(run, sizeof run, "%.*s", (int)run_length(s), s->dir);
    snprintf(out, SESSION_PATH, "%.4000s/%s", session_is_run(run) ? run : s->dir, own_folder);
}

/* The id of rank 0. */
static void id_of(char id[33], const struct session *s)
{
    memcpy(id, s->id, 33);
    if (s->ranks.size > 1)
        memcpy(id + 4, "0000", 4);
}

void snapshot_names(char folder[SESSION_PATH], char name[64], const struct session *s,
                    uint64_t step)
{
    char   id[33];
    size_t n = run_length(s), at = n;

    id_of(id, s);
    while (at > 0 && s->dir[at - 1] != '/')
        at--;
    snprintf(folder, SESSION_PATH, "%.*s-%s", (int)(n - at < 200 ? n - at : 200), s->dir + at, id);
    at = (size_t)snprintf(name, 64, "step-%08" PRIu64, step);
    if (s->ranks.rank)
        snprintf(name + at, 64 - at, ".rank%zu", s->ranks.rank);
}

/* Whether a name in a folder NAME-ID is that of a snapshot of this rank. */
static int is_step(const struct session *s, const char *name)
{
    char pattern[64] = "step-+([0-9])"; // of fnmatch, in glibc's notation

    if (s->ranks.rank)
        snprintf(pattern, sizeof pattern, "step-+([0-9]).rank%zu", s->ranks.rank);
    return !fnmatch(pattern, name, FNM_EXTMATCH);
}

/* ---- whose it is ---- */

/* Whether the path is in RUN/snapshots. */
static int is_in_run(const struct session *s, const char *path)
{
    char own[SESSION_PATH];

    snapshots_own_dir(own, s);
    size_t n = strlen(own);
    return !strncmp(path, own, n) && path[n] == '/';
}

enum whose { NOT_OURS, LOOKS_LIKE_OURS, CERTAINLY_OURS };

/* of: the setting snapshot.of. A copy of RUN has another inode; a backup that took RUN's place has
 * its path. A copy has its own snapshots in it, and may be read from those of its original, which
 * it never removes. */
static enum whose whose_is(const struct session *s, const char *path, const char *of)
{
    const char *born = strchr(of, ' '), *was = born ? strchr(born + 1, ' ') : NULL;
    int         same_path = was && !strcmp(was + 1, s->dir);

    if (is_in_run(s, path))
        return CERTAINLY_OURS;
    if (file_is(s->dir, of) && (same_path || file_has_births(s->dir, of)))
        return CERTAINLY_OURS;
    return same_path ? LOOKS_LIKE_OURS : NOT_OURS;
}

/* ---- one snapshot ---- */

static int loss_row(void *ctx, int n, const char **values, const char **names)
{
    (void)n, (void)names;
    *(double *)ctx = runlog_real(values[0]);
    return 0;
}

/* Goes over snapshot.files. Calls each(ctx, path, bytes), until it returns other than 0. */
static int each_file(const char *path, const char *files,
                     int (*each)(void *ctx, const char *file, uint64_t bytes), void *ctx)
{
    char *copy = strdup(files), *rest = copy, *line;
    int   rc = copy ? 0 : -ENOMEM;

    while (!rc && (line = strsep(&rest, "\n"))) {
        char    *name, *file;
        uint64_t bytes = strtoull(line, &name, 10);

        if (*name++ != ' ' || *name == '/' || strstr(name, ".."))
            continue; // not as snapshot_make.c writes it
        file = file_path(NULL, "%s/%s", path, name);
        rc = file ? each(ctx, file, bytes) : -ENOMEM;
        free(file);
    }
    free(copy);
    return rc;
}

/* Whether a file is there with its size; adds what it takes on the drive. */
static int look_file(void *ctx, const char *file, uint64_t bytes)
{
    struct snapshot *at = ctx;
    struct stat      st;

    at->whole &= !lstat(file, &st) && S_ISREG(st.st_mode) && (uint64_t)st.st_size == bytes;
    if (at->whole)
        at->bytes += (uint64_t)st.st_blocks * 512;
    return 0;
}

/* What its run.db says. 1: it is a snapshot of this run, or may be. */
static int look_log(struct snapshot *at, const struct session *s, struct runlog *log)
{
    char  id[sizeof s->id] = "", *of = settings_get(log, "snapshot.of");
    char *files = settings_get(log, "snapshot.files");
    int   known = settings_scan(log, "%" SCNu64, &at->step, "snapshot") &&
                  settings_scan(log, "%" SCNu64, &at->n, "snapshot.n") && of && files &&
                  !runlog_get(log, "id", id, sizeof id, NULL) && !strcmp(id, s->id);
    enum whose whose = known ? whose_is(s, at->path, of) : NOT_OURS;
    struct stat st;

    at->ours = whose == CERTAINLY_OURS;
    at->whole = known;
    at->whole = known && !each_file(at->path, files, look_file, at) && at->whole;
    if (known && !stat(runlog_path(log), &st))
        at->bytes += (uint64_t)st.st_blocks * 512;
    runlog_get(log, "snapshot.taken", at->taken, sizeof at->taken, NULL);
    if (known && at->step)
        runlog_ask(log, loss_row, &at->loss, NULL, "SELECT loss FROM steps WHERE step = %" PRIu64,
                   at->step - 1);
    free(of);
    free(files);
    return whose != NOT_OURS;
}

/* Looks at the folder `path`, which has a snapshot's name. 0: it is none of this run. */
static int look(struct snapshot *at, const struct session *s, const char *path)
{
    char           db[SESSION_PATH + 16];
    struct runlog *log = NULL;

    *at = (struct snapshot){ .loss = (double)NAN };
    if (!realpath(path, at->path))
        return 0;
    snprintf(db, sizeof db, "%s/run.db", at->path);
    int found = !runlog_open(&log, db, 1, 1, NULL) && look_log(at, s, log);
    runlog_close(log);
    return found;
}

/* ---- all snapshots ---- */

static int is_known(const struct snapshots *list, const char *path)
{
    for (size_t i = 0; i < list->n; i++)
        if (!strcmp(list->at[i].path, path))
            return 1;
    return 0;
}

static int add(struct snapshots *list, const struct session *s, const char *path, struct err *err)
{
    struct snapshot at, *grown;

    if (!look(&at, s, path) || is_known(list, at.path))
        return 0;
    if (!(grown = realloc(list->at, (list->n + 1) * sizeof *grown)))
        return err_set(err, -ENOMEM, "out of memory for %zu snapshots", list->n + 1);
    list->at = grown;
    grown[list->n++] = at;
    return 0;
}

/* Whether a name in a snapshot directory is NAME-ID of this run. RUN may have been renamed. */
static int is_of_run(const struct session *s, const char *name)
{
    char   id[33];
    size_t n = strlen(name), end = sizeof id - 1;

    id_of(id, s);
    return n > end + 1 && name[n - end - 1] == '-' && !strcmp(name + n - end, id);
}

/* Calls each(ctx, NAME-ID) for each of the run's folders in this snapshot directory. */
static int each_folder(const struct session *s, const char *dir,
                       int (*each)(void *ctx, const char *folder, struct err *err), void *ctx,
                       struct err *err)
{
    struct file_walk w;

    if (file_walk_begin(&w, dir, NULL))
        return 0; // a drive that is away
    int rc = 0;
    while (!rc && file_walk_next(&w))
        rc = is_of_run(s, w.name) ? each(ctx, w.path, err) : 0;
    file_walk_end(&w, rc, NULL);
    return rc;
}

/* The same in all directories. */
static int each_place(const struct session *s,
                      int (*each)(void *ctx, const char *folder, struct err *err), void *ctx,
                      struct err *err)
{
    char own[SESSION_PATH];

    snapshots_own_dir(own, s);
    int rc = each_folder(s, own, each, ctx, err);
    for (size_t i = 0; i < s->o.snapshot_dir.n && !rc; i++)
        rc = each_folder(s, s->o.snapshot_dir.item[i], each, ctx, err);
    return rc;
}

struct listing { struct snapshots *list; const struct session *s; struct err *err; int rc; };

static int list_folder(void *ctx, const char *folder, struct err *err)
{
    struct listing  *l = ctx;
    struct file_walk w;
    int              rc = 0;

    if (file_walk_begin(&w, folder, NULL))
        return 0;
    while (!rc && file_walk_next(&w))
        if (is_step(l->s, w.name))
            rc = add(l->list, l->s, w.path, err);
    file_walk_end(&w, rc, NULL);
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

int snapshots_list(struct snapshots *out, const struct session *s, struct err *err)
{
    struct listing l = { .list = out, .s = s, .err = err };

    *out = (struct snapshots){ 0 };
    int rc = each_place(s, list_folder, &l, err);
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

int snapshots_step(struct snapshot *out, const struct session *s, uint64_t step, struct err *err)
{
    struct snapshots       list;
    const struct snapshot *at = NULL;
    char                   steps[512];
    int                    rc = snapshots_list(&list, s, err);

    if (!rc && !(at = find(&list, step))) {
        steps_text(&list, steps, sizeof steps);
        rc = err_misuse(err, "%s has no snapshot after step %" PRIu64 "%s%s", s->dir, step,
                        *steps ? ": there are snapshots after the steps " : "; it has none at all",
                        steps);
    }
    if (at)
        *out = *at;
    snapshots_free(&list);
    return rc;
}

/* The row of a step, as text. The seconds that it took tell branches apart in which a step gave the
 * same loss. */
static int step_row(void *ctx, int n, const char **values, const char **names)
{
    (void)n, (void)names;
    snprintf(ctx, STEP_ROW, "%s", values[0] ? values[0] : "");
    return 0;
}

static int step_text(char out[STEP_ROW], struct runlog *log, uint64_t step)
{
    *out = '\0';
    return step ? runlog_ask(log, step_row, out, NULL, "SELECT tokens || ' ' || loss || ' ' ||"
                             " seconds FROM steps WHERE step = %" PRIu64, step - 1) : 0;
}

int snapshot_is_now(const struct snapshot *at, const struct session *s)
{
    char           db[SESSION_PATH + 16], was[STEP_ROW], is[STEP_ROW];
    struct runlog *log = NULL;

    snprintf(db, sizeof db, "%s/run.db", at->path);
    int same = !runlog_open(&log, db, 1, 1, NULL) && !step_text(was, log, at->step) &&
               !step_text(is, s->log, at->step) && !strcmp(was, is);
    runlog_close(log);
    return same;
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

/* The model in best/. It may be another one than run.db says, if RUN's is. */
static void look_at_best(struct session *snapshot, struct verdict *found)
{
    struct exported best;

    if (exports_look(&best, snapshot->log, snapshot->dir, EXPORTS_BEST, snapshot->events) &&
        best.state == EXPORTS_DAMAGED)
        note(found, 1, best.why.text);
}

int snapshot_verify(struct session *snapshot, struct err *err)
{
    struct verdict      found = { 0 };
    struct watch        w = work_begin(snapshot->events, "checking %s", snapshot->dir);
    struct verify       v = { .say = note, .ctx = &found, .watch = &w };
    struct runlog_check db;
    int                 rc = verify_run(&v, &snapshot->run, err);

    work_end(snapshot->events);
    rc = rc ? rc : runlog_check(snapshot->log, 0, note_damage, &found, &db, err);
    if (rc)
        return rc;
    look_at_best(snapshot, &found);
    if (found.damaged)
        return err_set(err, -EBADMSG, "%s", found.first.text);
    return v.half_done ? err_set(err, -EBADMSG, "%s is in the middle of a step", snapshot->dir) : 0;
}

/* ---- removal ---- */

/* Removes a file if it is what the list says, in a folder that is no link. */
static int unlink_file(void *ctx, const char *file, uint64_t bytes)
{
    char       *folder = file_folder(file);
    struct stat at, st;

    if (folder && !lstat(folder, &at) && S_ISDIR(at.st_mode) && !lstat(file, &st) &&
        S_ISREG(st.st_mode) && (uint64_t)st.st_size == bytes)
        unlink(file);
    if (folder && strcmp(folder, ctx))
        rmdir(folder); // if it was the last file in it
    free(folder);
    return 0;
}

/* Removes the files of a snapshot that nobody else has open. run.db, which has the list of all
 * others, is the last. What is not on the list stays. */
static void clear(const char *path)
{
    static const char *const own[] = { "run.db-wal", "run.db-shm", "run.lock", "run.db" };
    char                     file[SESSION_PATH + 64];
    struct runlog           *log = NULL;

    snprintf(file, sizeof file, "%s/run.db", path);
    char *files = runlog_open(&log, file, 1, 1, NULL) ? NULL : settings_get(log, "snapshot.files");
    runlog_close(log);
    if (files)
        each_file(path, files, unlink_file, (void *)(uintptr_t)path);
    for (size_t i = 0; files && i < sizeof own / sizeof *own; i++) {
        snprintf(file, sizeof file, "%s/%s", path, own[i]);
        unlink(file);
    }
    free(files);
    rmdir(path);
}

static int lock_alone(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB))
        return fd;
    file_close(fd);
    return -1;
}

/* Gives it a name under which nobody takes it for a snapshot: that of an empty folder, which this
 * replaces. *at gets that name; the caller frees it. */
static int set_aside(char **at, const char *path, const char *name, struct err *err)
{
    char            aside[SESSION_PATH + sizeof gone];
    struct file_new to;

    snprintf(aside, sizeof aside, "%s%s", name, gone);
    int rc = file_new_folder(&to, aside, err);
    if (!rc && rename(path, to.temp))
        rc = err_set(err, -errno, "rename %s to %s: %s", path, to.temp, strerror(errno));
    *at = rc ? NULL : file_path(err, "%s", to.temp);
    if (rc)
        file_new_abort(&to);
    else
        file_new_keep(&to);
    return rc ? rc : *at ? 0 : -ENOMEM;
}

int snapshot_remove(const char *path, struct err *err)
{
    char *at = NULL;
    int   fd = lock_alone(path), rc;

    if (fd < 0)
        return err_set(err, -EBUSY, "%s is in use and is not removed yet", path);
    if (!(rc = set_aside(&at, path, path, err)))
        clear(at);
    free(at);
    file_close(fd);
    return rc;
}

int snapshot_replaced(const char *path, const char *name, struct err *err)
{
    char *at = NULL;
    int   rc = set_aside(&at, path, name, err), fd = rc ? -1 : lock_alone(at);

    if (fd >= 0)
        clear(at);
    free(at);
    file_close(fd);
    return rc;
}

/* Removes what killed processes of this rank left in a folder NAME-ID: half-made snapshots, and
 * half-removed ones. */
static int clean_folder(void *ctx, const char *folder, struct err *err)
{
    struct file_walk w;

    (void)err;
    file_walk_begin(&w, folder, NULL);
    while (file_walk_next(&w)) {
        char        base[NAME_MAX + 1], *path;
        const char *tail = strstr(w.name, ".new-");
        size_t      n = tail ? (size_t)(tail - w.name) : 0;

        snprintf(base, sizeof base, "%.*s", (int)n, w.name);
        if (!n || !file_new_is(w.name, base, 1))
            continue;
        int half_removed = n > strlen(gone) && !strcmp(base + n - strlen(gone), gone);

        if (half_removed)
            base[n - strlen(gone)] = '\0';
        if (!is_step(ctx, base))
            continue;
        int fd = half_removed ? lock_alone(w.path) : -1;

        if (fd >= 0)
            clear(w.path);
        file_close(fd);
        path = half_removed ? NULL : file_path(NULL, "%s/%s", folder, base);
        if (path)
            file_new_clear_left(path, 1);
        free(path);
    }
    file_walk_end(&w, 0, NULL);
    return 0;
}

void snapshots_clean(struct session *s) { each_place(s, clean_folder, s, NULL); }

/* Removes the oldest, of those in the run's history or of all others, while too many are whole. */
static int remove_some(struct session *s, const struct snapshots *list, int others, size_t *whole,
                       struct err *err)
{
    struct err why;
    int        rc = 0;

    for (size_t i = 0; i < list->n && *whole > s->o.snapshots && !rc; i++) {
        const struct snapshot *at = &list->at[i];

        if (!at->ours || snapshot_is_now(at, s) == others)
            continue;
        *whole -= (size_t)at->whole;
        if (snapshot_remove(at->path, &why))
            rc = session_notice(s, why.text, err);
    }
    return rc;
}

int snapshots_rotate(struct session *s, struct err *err)
{
    struct snapshots list;
    size_t           whole = 0;
    int              rc = snapshots_list(&list, s, err);

    for (size_t i = 0; i < list.n; i++)
        whole += list.at[i].whole && list.at[i].ours;
    rc = rc ? rc : remove_some(s, &list, 1, &whole, err);
    rc = rc ? rc : remove_some(s, &list, 0, &whole, err);
    snapshots_free(&list);
    snapshots_clean(s);
    return rc;
}
