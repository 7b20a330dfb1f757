/* going_back.c: takes a run back to a snapshot. going_back.h says in which order, and why a kill
 * loses nothing. */
#include "run/loop/going_back.h"

#include "data/db/branches.h"
#include "offload/upkeep/snapshot.h"
#include "run/folder/settings.h"
#include "run/folder/snapshot_make.h"
#include "run/loop/best.h"
#include "run/loop/lost.h"
#include "run/ranks/back.h"
#include "run/ranks/job_run.h"
#include "run/ranks/keeping.h"

struct back {
    struct session *s, snapshot; // the snapshot is open, and nobody removes it
    struct snapshot at;
    char           *changed;     // options, as session_branch_options gives them
    int             half_way;    // a process was killed after the states began to be written over
    int             there;       // the run is at the snapshot: only options change
    int             restores;    // devices are gone, and are made again
    uint64_t        present;     // steps that are done
    char            said[768];
};

/* ---- before anything changes ---- */

/* Find the snapshot again to which a killed process went. step NULL: any. */
static int find_again(struct back *b, const uint64_t *step, const char *to, struct err *err)
{
    struct snapshots list;
    char             line[SESSION_LINE];
    uint64_t         its = 0, n = 0;
    int              rc = snapshots_list(&list, b->s, err), found = 0;

    if (!rc && (sscanf(to, "%" SCNu64 " %" SCNu64, &its, &n) != 2 || (step && its != *step)))
        rc = err_misuse(err, "%s is on its way back to the snapshot after step %" PRIu64 ", and "
                        "was stopped before it was there; go on with: %s --from %" PRIu64,
                        b->s->dir, its, session_resume_line(line, b->s), its);
    for (size_t i = 0; i < list.n && !rc && !found; i++)
        if ((found = list.at[i].n == n && list.at[i].step == its && list.at[i].whole))
            b->at = list.at[i];
    if (!rc && !found)
        rc = err_set(err, -ENOENT, "%s is on its way back to the snapshot %s, which is not there, "
                     "or not whole: put it back, and type this command again", b->s->dir,
                     strchr(to, '/') ? strchr(to, '/') : to);
    snapshots_free(&list);
    return rc;
}

/* Find the snapshot that is nearest to the present state: the latest one of what the run has done.
 * If there is none, the newest of any branch. */
static int find_newest(struct back *b, struct err *err)
{
    struct snapshots       list;
    const struct snapshot *newest = NULL;
    int                    rc = snapshots_list(&list, b->s, err);

    for (const struct snapshot *at = list.at; !rc && at < list.at + list.n; at++)
        if (at->whole && (!newest || at->step >= newest->step) && snapshot_is_now(at, b->s))
            newest = at;
    if (!rc && !newest && !(newest = snapshots_newest(&list)))
        rc = err_set(err, -ENOENT, "%s has no complete snapshot (--snapshot-every takes them), and "
                     "what was on the lost device is nowhere else", b->s->dir);
    if (newest)
        b->at = *newest;
    snapshots_free(&list);
    return rc;
}

/* step NULL: the newest. */
static int find(struct back *b, const uint64_t *step, struct err *err)
{
    char *to;
    int   rc = settings_find(&to, b->s->log, err, "going_back");

    if (rc)
        return rc;
    b->half_way = to != NULL;
    rc = b->s->ranks.comm ? back_find(&b->at, &b->half_way, b->s, step, err)
         : to   ? find_again(b, step, to, err)
         : step ? snapshots_step(&b->at, b->s, *step, err)
                : find_newest(b, err);
    free(to);
    return rc;
}

/* Whether all of a snapshot can be read as it was written: 1, 0, or -errno if that was not found
 * out. */
static int is_whole(const struct back *b, const struct snapshot *at, struct err *err)
{
    struct session s;
    int            rc = session_open(&s, at->path, SESSION_READ, b->s->events, err);

    rc = rc ? rc : snapshot_verify(&s, err);
    session_close(&s);
    return !rc ? 1 : err->stopped || rc == -ENOMEM ? rc : 0;
}

/* Of several ranks: whether all of them have it. */
static int all_have(const struct back *b, int has, struct err *err)
{
    uint64_t with = (uint64_t)has;
    int      rc = back_add(b->s, &with, err);

    return rc ? rc : with == b->s->ranks.size;
}

static int make_together(struct back *b, struct err *err)
{
    int failed, rc = keeping_make(b->s, b->present, &failed, err, err);

    return rc ? rc : failed;
}

/* Take a snapshot of the present state, unless there is one that is whole. A damaged one is
 * replaced. */
static int keep_present(struct back *b, struct err *err)
{
    struct snapshots       list;
    struct snapshot        made;
    const struct snapshot *has;
    int                    rc = snapshots_list(&list, b->s, err);

    if (!rc && (has = snapshots_present(&list, b->s, b->present)))
        rc = is_whole(b, has, err);
    snapshots_free(&list);
    if (rc >= 0 && b->s->ranks.comm)
        rc = all_have(b, rc, err);
    if (rc)
        return rc < 0 ? rc : 0;
    if (b->present == b->at.step) // its snapshot would take that one's name
        return err_misuse(err, "%s is at step %" PRIu64 " itself, in another branch than that "
                          "snapshot, which the snapshot of the present state would replace: train "
                          "at least a step, and go back then", b->s->dir, b->present);
    rc = b->s->ranks.comm ? make_together(b, err) : snapshot_make(&made, b->s, b->present, err);
    return rc ? err_set(err, rc, "%.700s; without a snapshot of the present state, %s does not go "
                        "back", err->text, b->s->dir) : 0;
}

/* ---- going back ---- */

/* Write the snapshot's states over the run's. */
static int put_states(struct back *b, struct snapshot_put *put, struct err *err)
{
    struct watch w = work_begin(b->s->events, "going back to step %" PRIu64, b->at.step);

    put->from = &b->snapshot.run;
    put->to = &b->s->run;
    put->watch = &w;
    int rc = snapshot_put(put, err);
    put->watch = NULL;
    work_end(b->s->events);
    return rc;
}

/* What happened, for the user. It is printed once it has. */
static int notice(struct back *b, const struct branch *left, struct err *err)
{
    char *text = b->said, steps[160] = "", with[256] = "";

    for (char *c = b->changed; (c = strchr(c, '\n')); c++)
        *c = ';';
    if (left->n)
        snprintf(steps, sizeof steps,
                 ", from step %" PRIu64 "; steps %" PRIu64 " to %" PRIu64 " are branch %" PRIu64
                 " now", b->present, left->first + 1, b->present, left->n);
    if (*b->changed)
        snprintf(with, sizeof with, "; it goes on with %.200s", b->changed);
    if (b->there)
        snprintf(text, sizeof b->said, "from step %" PRIu64 " on: %.600s", b->at.step + 1,
                 b->changed);
    else
        snprintf(text, sizeof b->said, "went back to step %" PRIu64 "%s%s", b->at.step, steps,
                 with);
    return runlog_notice(b->s->log, text, err);
}

/* Make the run what the snapshot is. In the caller's transaction. */
static int record(struct back *b, struct snapshot_put *put, struct err *err)
{
    static const char *const keys[] = { "engine", "schedule.step", "schedule.was" };
    struct session *s = b->s;
    struct branch   left = { .to = b->at.step, .steps = b->present,
                             .options = b->restores ? "restored" : b->changed };
    int             rc = 0;

    if (!b->there) {
        rc = snapshot_put_record(put, err);
        rc = rc ? rc : branches_leave(&left, s->log, b->snapshot.log, err);
        rc = rc ? rc : best_take_record(s, &b->snapshot, err);
        for (size_t i = 0; i < sizeof keys / sizeof *keys && !rc; i++)
            rc = settings_take(s->log, b->snapshot.log, keys[i], err);
        rc = rc ? rc : runlog_unset(s->log, "finished", err);
        rc = rc ? rc : branches_end(s->log, err);
    }
    rc = rc ? rc : session_store_options(s, 0, err);
    return rc ? rc : notice(b, &left, err);
}

static int go(struct back *b, struct err *err)
{
    struct session     *s = b->s;
    struct snapshot_put put = { .fd = -1 };
    char                to[SESSION_PATH + 64], line[SESSION_LINE];
    int                 begun = b->half_way, rc = b->there ? 0 : snapshot_verify(&b->snapshot, err);

    snprintf(to, sizeof to, "%" PRIu64 " %" PRIu64 " %s", b->at.step, b->at.n, b->at.path);
    rc = rc ? rc : back_wait(s, err); // the parts of all ranks are whole
    if (!rc && !b->there && !settings_has(s->log, "going_back"))
        rc = branches_begin(s->log, to, err);
    begun |= !rc && !b->there;
    rc = rc ? rc : back_wait(s, err); // all ranks are marked
    if (b->restores)
        rc = rc ? rc : lost_make(s, &b->snapshot, err);
    if (!b->there) {
        rc = rc ? rc : put_states(b, &put, err);
        rc = rc ? rc : best_take(s, &b->snapshot, err);
    }
    rc = rc ? rc : back_wait(s, err); // all ranks have their states
    if (!rc && !(rc = runlog_begin(s->log, err)))
        rc = runlog_end(s->log, record(b, &put, err), err);
    snapshot_put_end(&put);
    if (!rc)
        events_notice(s->events, "%s %s", s->dir, b->said);
    if (rc && begun && b->restores)
        err_set(err, rc, "%.600s; %s is on its way back; type the same command again to "
                "finish it", err->text, s->dir);
    else if (rc && begun)
        err_set(err, rc, "%.600s; %s is on its way back; go on with: %s --from %" PRIu64, err->text,
                s->dir, session_resume_line(line, s), b->at.step);
    return rc;
}

/* Where the run is. A step that is half done is finished first. */
static int find_present(struct back *b, struct err *err)
{
    struct session *s = b->s;
    uint64_t        applied;
    int             rc = b->half_way || b->restores ? 0 : session_recover(s, err);

    rc = rc ? rc : run_position(&s->run, &b->present, &applied, err);
    b->there = !rc && !b->half_way && !b->restores && b->present == b->at.step &&
               snapshot_is_now(&b->at, s);
    uint64_t there = (uint64_t)b->there;
    rc = rc ? rc : back_add(s, &there, err);
    b->there = !rc && there == size_max(s->ranks.size, 1);
    return rc;
}

/* Go to the snapshot in b->at, which is open. */
static int go_to(struct back *b, const struct opt_line *line, struct err *err)
{
    int rc = session_open(&b->snapshot, b->at.path, SESSION_READ, b->s->events, err);

    rc = rc ? rc : session_branch_options(&b->changed, b->s, b->snapshot.log, line, err);
    rc = rc ? rc : job_run_alike(b->s, err);
    rc = rc ? rc : job_run_frames(b->s, err);
    rc = rc ? rc : find_present(b, err);
    if (!rc && !b->there && !b->half_way && !b->restores)
        rc = keep_present(b, err);
    if (!rc && !(b->there && !*b->changed))
        rc = go(b, err);
    free(b->changed);
    session_close(&b->snapshot);
    return rc;
}

int going_back(struct session *s, uint64_t step, const struct opt_line *line, struct err *err)
{
    struct back b = { .s = s };
    int         rc = find(&b, &step, err);

    return rc ? rc : go_to(&b, line, err);
}

int going_back_restore(struct session *s, uint64_t *step, struct err *err)
{
    struct back b = { .s = s, .restores = 1 };
    int         rc = find(&b, NULL, err);

    *step = b.at.step;
    return rc ? rc : go_to(&b, NULL, err);
}
