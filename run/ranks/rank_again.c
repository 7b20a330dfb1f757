/* rank_again.c: makes the folder of a lost rank again. It is made as a new run's (creation.h), and
 * where its devices are is stored only when it is a run: what removes a maker that was killed
 * removes no devices then, which may be those that the lost folder had. */
#include "run/ranks/rank_again.h"

#include "data/file/file.h"
#include "data/file/file_walk.h"
#include "data/db/branches.h"
#include "run/folder/creation.h"
#include "run/folder/run_files.h"
#include "run/folder/settings.h"
#include "run/ranks/back.h"
#include "run/ranks/carry.h"
#include "run/ranks/job_run.h"
#include "run/ranks/rank_dir.h"
#include "run/ranks/rank_owner.h"
#include "run/ranks/rank_parts.h"
#include "run/snapshots/lost.h"
#include "run/snapshots/portions.h"

#include <sys/stat.h>
#include <unistd.h>

enum { AGAIN_PATH = SESSION_PATH + 320 };
static const char db_copy[] = RUN_DB_NEW ".copy";

enum { NEWEST = 48, VALUE = 40 };

/* What each rank tells the others. */
struct told { uint64_t has, format; char id[40], newest[NEWEST][VALUE]; };

/* The i-th option that all ranks have alike, and that a resume or a branch may have changed since
 * the snapshot: the newest value is another rank's. NULL past the last. */
static const struct opt_row *newest_row(size_t i)
{
    static const char *const same[] = { "export-limit", "snapshot-every", "snapshots",
                                        "rank-timeout", "log-every" };
    const struct opt_row    *row;

    for (size_t k = 0; (row = train_opts_row(k)); k++) {
        int is = (row->kept == OPT_BRANCH && opt_row_decides(row)) ||
                 (row->kept == OPT_CHANGES && row->ranks == OPT_ALIKE);

        for (size_t n = 0; n < sizeof same / sizeof *same && !is; n++)
            is = !strcmp(row->name, same[n]);
        if (is && !i--)
            break;
    }
    return row;
}

struct again {
    const struct session *s;      // NULL: this rank is lost
    const char           *dir;
    struct comm          *comm;
    const struct events  *events;
    struct told          *all;    // (ranks)
    size_t                donor;  // the first rank that has its folder
    struct parts_seen     seen;
    struct part_seen      at;     // the snapshot
    int                   sure;   // it is of this run, not of one that this one was copied from
    struct creation       place;
    struct session        to;     // of the new folder
    struct carried       *list;   // (ranks)
    size_t                n;
    char                 *files, from[SESSION_PATH];
};

/* ---- what is sent ---- */

/* Of a part, run.db and the tokenizer. */
static int part_files(struct again *a, const char *path, struct err *err)
{
    char  *all = NULL, *rest, *line;
    size_t size;
    int    rc = rank_parts_files(&all, path, err);
    FILE  *f = rc ? NULL : open_memstream(&a->files, &size);

    if (!rc && !f)
        rc = err_set(err, -ENOMEM, "out of memory for a list of files");
    for (rest = all; !rc && (line = strsep(&rest, "\n"));)
        if (strstr(line, " tokenizer/") || !rest) // run.db is the last one
            fprintf(f, "%s%s", line, rest ? "\n" : "");
    if (f)
        fclose(f);
    free(all);
    return rc;
}

/* Of a run's folder, the tokens and rows. */
static int data_files(struct again *a, struct err *err)
{
    struct file_walk w;
    struct stat      st;
    size_t           size;
    FILE            *f = open_memstream(&a->files, &size);
    int rc = f ? file_walk_begin(&w, a->s->dir, err) : err_set(err, -ENOMEM, "out of memory");

    while (!rc && file_walk_next(&w)) {
        const struct run_file *is = run_file_find(w.name);

        if (!is || !(is->flags & RUN_FILE_COPIED) || is->flags & RUN_FILE_FOLDER)
            continue;
        int there = file_stat(w.path, &st, err);
        rc = there > 0 ? file_check_own(w.path, 0, err) : there; // a link's target is not the run's
        if (there > 0 && !rc)
            fprintf(f, "%" PRIu64 " %s\n", (uint64_t)st.st_size, w.name);
    }
    if (f) {
        rc = file_walk_end(&w, rc, err);
        fclose(f);
    }
    return rc;
}

/* Send each lost rank its run.db and tokenizer, or the data. */
static int send_all(struct again *a, int data, struct err *err)
{
    struct snapshot has;
    struct watch    w = work_begin(a->events, "sending %s to a new folder",
                                   data ? "data" : "a run.db");
    struct carry_moved unread = { 0 };
    int             rc = 0, failed = 0, joined;

    a->n = 0;
    for (size_t p = 0; p < a->comm->size && !rc; p++) {
        const struct part_seen *part = rank_parts_of(&a->seen, &a->at, p);
        size_t                  from = data ? a->donor : part->holder;

        if (a->all[p].has)
            continue;
        struct carried *c = &a->list[a->n++];

        *c = (struct carried){ .from = from, .to = p, .folder = a->to.dir, .db_as = db_copy };
        if (from != a->comm->rank)
            continue;
        free(a->files); // those of another lost rank are its own: only data are alike
        a->files = NULL;
        if (!data && !(rc = rank_parts_find(&has, a->s, part, err)))
            rc = part_files(a, has.path, err);
        else if (data)
            rc = data_files(a, err);
        snprintf(a->from, sizeof a->from, "%s", data ? a->s->dir : rc ? "" : has.path);
        c->folder = a->from;
        c->files = a->files;
    }
    joined = rc ? rc : carry(a->comm, a->list, a->n, &w, &unread, &failed, err, err);
    work_end(a->events);
    return joined ? joined : failed;
}

/* ---- the new run.db ---- */

static int unset_numbered(struct runlog *log, const char *name, struct err *err)
{
    int rc = 0, any = 1;

    for (size_t i = 0; any && !rc; i++) {
        char key[64], *value;

        snprintf(key, sizeof key, "%s.%zu", name, i);
        rc = settings_find(&value, log, err, "%s", key);
        any = !rc && value;
        free(value);
        rc = rc || !any ? rc : runlog_unset(log, key, err);
    }
    return rc;
}

/* Whether a rank that is left knows that the snapshot was made in its own folder. In a copy of the
 * run no rank does, and the snapshot's run.db names places that are the original's. */
static int know_whose(struct again *a, struct err *err)
{
    const struct part_seen *own = a->s ? rank_parts_of(&a->seen, &a->at, a->comm->rank) : NULL;
    struct snapshot         has;
    struct runlog          *log = NULL;
    struct err              unsaid;
    int                     rc = 0, knows = 0, *all;

    if (own && own->holder == a->comm->rank && !rank_parts_find(&has, a->s, own, &unsaid) &&
        !runlog_open_in(&log, has.path, 1, &unsaid)) {
        char *of = settings_get(log, "snapshot.of");

        knows = of && portions_certain(a->s, of);
        free(of);
    }
    runlog_close(log);
    all = comm_collect(a->comm, &knows, sizeof knows, &rc, err);
    for (size_t r = 0; all && r < a->comm->size; r++)
        a->sure |= all[r];
    free(all);
    return rc;
}

/* Forget the places outside the folder that the snapshot's run.db names. */
static int forget_places(struct runlog *log, struct err *err)
{
    int rc = runlog_unset(log, "option.tensorboard", err);

    rc = rc ? rc : unset_numbered(log, "mount", err);
    rc = rc ? rc : unset_numbered(log, "drive", err);
    for (size_t i = 0; snapshot_changes[i] && !rc; i++) {
        char was[64];

        snprintf(was, sizeof was, SNAPSHOT_WAS "%s", snapshot_changes[i]);
        if (strcmp(snapshot_changes[i], "option.csd")) // take_places goes by it
            rc = runlog_unset(log, was, err);
    }
    return rc;
}

/* What makes a snapshot's database that of a run on its way back to the snapshot. */
static int settle(struct again *a, struct runlog *log, struct err *err)
{
    static const char *const none[] = { "snapshot", "snapshot.n", "snapshot.of", "snapshot.taken",
                                        "snapshot.files", "snapshot.portions", "snapshot.folders",
                                        "snapshot.parity", "snapshot.times", "device.place",
                                        "best.step", "best.folder", "owner", "layout",
                                        RANK_OWNER_FIRST };
    const struct opt_row *row;
    char     to[64], *of;
    uint64_t n = 0;
    int      rc = settings_find(&of, log, err, "snapshot.of");

    if (!rc && !a->sure)
        rc = forget_places(log, err);
    else if (!rc && of)
        rc = moved_inherit(log, a->place.dir, of, err);
    free(of);
    rc = rc ? rc : moved_store(log, a->place.dir, err);

    settings_scan(log, "%" SCNu64, &n, "snapshot.n");
    snprintf(to, sizeof to, "%" PRIu64 " %" PRIu64, a->at.step, n);
    for (size_t i = 0; i < sizeof none / sizeof *none && !rc; i++)
        rc = runlog_unset(log, none[i], err);
    for (size_t i = 0; (row = newest_row(i)) && !rc; i++)
        if (*a->all[a->donor].newest[i])
            rc = settings_set(log, err, "option.%s=%s", row->name, a->all[a->donor].newest[i]);
    rc = rc ? rc : unset_numbered(log, "device", err);
    return rc ? rc : branches_begin_as(log, to, "", a->all[a->donor].format, err);
}

/* Replace the empty run.db.new by the one that came. */
static int take_db(struct again *a, struct err *err)
{
    struct session *to = &a->to;
    char            copy[AGAIN_PATH];

    snprintf(copy, sizeof copy, "%s/%s", to->dir, db_copy);
    runlog_close(to->log);
    to->log = NULL;
    int rc = runlog_open(&to->log, copy, 0, 1, err);
    return creation_take_log(to, copy, rc ? rc : settle(a, to->log, err), err);
}

/* Before a folder that was made again is opened: put its devices where the lost one had them. Does
 * nothing to any other run. */
static int take_places(const char *dir, struct err *err)
{
    struct runlog *log = NULL;

    if (!session_is_run(dir) || runlog_open_in(&log, dir, 1, err))
        return 0; // opening it says so
    int fresh = settings_has(log, SNAPSHOT_WAS "option.csd") && settings_has(log, "going_back");
    runlog_close(log);
    log = NULL;
    if (!fresh)
        return 0;
    int rc = runlog_open_in(&log, dir, 0, err);
    if (!rc && !(rc = runlog_begin(log, err))) {
        for (size_t i = 0; snapshot_changes[i] && !rc; i++) {
            char was[64], *value;

            snprintf(was, sizeof was, SNAPSHOT_WAS "%s", snapshot_changes[i]);
            rc = settings_find(&value, log, err, "%s", was);
            rc = rc || !value ? rc : runlog_set(log, snapshot_changes[i], value, err);
            rc = rc ? rc : runlog_unset(log, was, err);
            free(value);
        }
        rc = runlog_end(log, rc, err);
    }
    runlog_close(log);
    return rc;
}

/* ---- all ranks ---- */

static int tell(struct again *a, struct err *err)
{
    const struct opt_row *row;
    struct told own = { .has = a->s != NULL };
    int         rc = a->s ? branches_format(a->s->log, &own.format, err) : 0;

    if (a->s)
        snprintf(own.id, sizeof own.id, "%s", a->s->id);
    for (size_t i = 0; a->s && (row = newest_row(i)); i++) {
        char *value = settings_get(a->s->log, "option.%s", row->name);

        assert(i < NEWEST);
        snprintf(own.newest[i], VALUE, "%s", value ? value : "");
        free(value);
    }
    a->all = calloc(a->comm->size, sizeof *a->all);
    a->list = calloc(a->comm->size, sizeof *a->list);
    if (!rc && (!a->all || !a->list))
        rc = err_set(err, -ENOMEM, "out of memory");
    rc = rc ? rc : comm_share(a->comm, &own, sizeof own, a->all, err);
    while (!rc && a->donor < a->comm->size && !a->all[a->donor].has)
        a->donor++;
    if (!rc && a->donor == a->comm->size)
        return err_misuse(err, "%s is not a run, and no other rank has a folder of one: at least "
                          "one must be left", a->dir);
    return rc;
}

/* What of the lost run.db comes from no other rank. */
static void say_made(const struct again *a)
{
    for (size_t p = 0; p < a->comm->size; p++)
        if (!a->all[p].has)
            events_notice(a->events, "the folder of rank %zu was made again: its options that "
                          "other ranks do not share, such as --threads, --host-mem and "
                          "--activations, are those of the snapshot after step %" PRIu64 " again"
                          "%s", p, a->at.step, a->sure ? "" :
                          "; its devices are in it, and it has no --tensorboard, because the "
                          "places that the snapshot names may be those of the run that this one "
                          "was copied from");
}

/* Fill the folder of this rank, if it is lost; otherwise send. */
static int fill(struct again *a, struct err *err)
{
    int rc = 0;

    if (!a->s) {
        rank_id_of(a->to.id, a->all[a->donor].id, a->comm->rank);
        rc = creation_claim(&a->place, &a->to, a->dir, 0, err);
    }
    rc = rc ? rc : send_all(a, 0, err);
    rc = rc ? rc : send_all(a, 1, err);
    if (!rc && !a->s)
        rc = take_db(a, err);
    if (!rc && !a->s)
        rc = creation_close(&a->place, &a->to, err);
    return rc ? rc : comm_share(a->comm, NULL, 0, NULL, err); // all have it
}

/* Make the folders that are lost. s: this rank's run, open, or NULL. */
static int make_lost(struct session *s, const char *dir, struct comm *comm,
                     const struct events *events, size_t *made, struct err *err)
{
    struct again a = { .s = s, .dir = dir, .comm = comm, .events = events,
                       .place = CREATION_NONE, .to = { .events = events } };
    int          rc = tell(&a, err);

    *made = 0;
    for (size_t p = 0; p < comm->size && !rc; p++)
        *made += !a.all[p].has;
    if (!rc && *made) {
        rc = s ? 0 : creation_check(dir, err);
        if (!rc && s && !a.all[0].has)
            rc = rank_owner_gone(s, err);
        rc = rc ? rc : rank_parts_look(&a.seen, s, comm, 1, err); // going back makes it whole
        rc = rc ? rc : back_choose(&a.at, &a.seen, s, comm, events, dir, err);
        if (!rc && s && !a.all[0].has) // this rank belongs to the folder that is made
            rc = runlog_unset(s->log, RANK_OWNER_FIRST, err);
        rc = rc ? rc : know_whose(&a, err);
        rc = rc ? rc : fill(&a, err);
        if (!rc && !s)
            rc = creation_name(&a.place, err);
        if (!s && rc)
            creation_give_up(&a.place, &a.to);
        rc = rc ? rc : comm_share(comm, NULL, 0, NULL, err);
        if (!rc)
            say_made(&a);
    }
    rank_parts_free(&a.seen);
    free(a.all);
    free(a.list);
    free(a.files);
    return rc;
}

int rank_again_open(struct session *s, const char *dir, const struct opt_strings *named,
                    struct comm *comm, const struct events *events, size_t *made, struct err *err)
{
    int rc = job_run_finish(dir, comm, err);

    rc = rc ? rc : comm_first_begin(comm, err);
    int has = !rc && session_may_be_run(dir);
    if (has) {
        rc = take_places(dir, err);
        rc = rc ? rc : job_run_open_own(s, dir, SESSION_RESTORE, events, comm, err);
        rc = rc ? rc : lost_apart_check(s, named, err);
    }
    rc = rc ? rc : comm_first_end(comm, err);
    rc = rc ? rc : make_lost(has ? s : NULL, dir, comm, events, made, err);
    if (!rc && !has) {
        rc = take_places(dir, err);
        rc = rc ? rc : session_open(s, dir, SESSION_RESTORE, events, err);
    }
    return rc ? rc : job_run_join(s, comm, err);
}
