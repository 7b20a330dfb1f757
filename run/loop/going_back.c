/* going_back.c: takes a run back to a snapshot. going_back.h says in which order, and why a kill
 * loses nothing. */
#include "run/loop/going_back.h"

#include "data/base/hash.h"
#include "data/db/branches.h"
#include "data/file/file.h"
#include "model/together.h"
#include "offload/upkeep/recovery.h"
#include "offload/upkeep/snapshot.h"
#include "run/folder/exports.h"
#include "run/folder/settings.h"
#include "run/loop/best.h"
#include "run/loop/checkpoints.h"
#include "run/loop/resume_opts.h"
#include "run/ranks/back.h"
#include "run/ranks/job_run.h"
#include "run/ranks/keeping.h"
#include "run/snapshots/lost.h"
#include "run/snapshots/made_whole.h"
#include "run/snapshots/snapshot_make.h"

struct back {
    struct session *s, snapshot; // the snapshot is open, and nobody removes it
    struct snapshot at;
    struct snapshots others;     // restores: those that may have to be made whole. files 0: known
    char           *changed;     // options, as session_branch_options gives them
    char           *options;     // of the command line (session_given_options); NULL: there is none
    char           *noted;       // the snapshot to which a killed process went: "STEP N PATH"
    int             half_way;    // it was killed after the states began to be written over
    int             there;       // the run is at the snapshot: only options change
    int             restores;    // devices are gone, and are made again
    int             verified;    // the snapshot was read, and is whole
    uint64_t        present;     // steps that are done
    char            said[768];
    const struct going_back_check *check; // NULL: none
};

/* ---- before anything changes ---- */

/* Of this snapshot, whether a killed process was on its way to it. */
static int is_noted(const struct back *b, const struct snapshot *at)
{
    uint64_t step, n;

    return b->half_way && sscanf(b->noted, "%" SCNu64 " %" SCNu64, &step, &n) == 2 &&
           at->step == step && at->n == n;
}

/* Append to the sentence of a run that is half way that other snapshots will do. */
static int say_others(const struct back *b, int rc, struct err *err)
{
    const char *path = b->noted ? strchr(b->noted, '/') : NULL;
    char        line[SESSION_LINE];

    if (!rc || !b->noted || b->s->ranks.comm || err->stopped)
        return rc;
    int misuse = err->misuse;
    err_set(err, rc, "%s; %s is on its way back to the snapshot %s; any whole snapshot ends "
            "that: %s --from STEP (siTrain snapshots lists them)", err->text, b->s->dir,
            path ? path : b->noted, session_resume_line(line, b->s));
    err->misuse = misuse;
    return rc;
}

/* The snapshot after so many steps. Of several, the one to which a killed process went. */
static int find_step(struct back *b, uint64_t step, struct err *err)
{
    struct snapshots list;
    int              rc = snapshots_list(&list, b->s, err), found = 0;

    for (size_t i = 0; i < list.n && !rc && !found; i++)
        if ((found = list.at[i].whole && list.at[i].step == step && is_noted(b, &list.at[i])))
            b->at = list.at[i];
    snapshots_free(&list);
    return rc || found ? rc : say_others(b, snapshots_step(&b->at, b->s, step, err), err);
}

/* How near a snapshot is to the present state. The one to which a killed process went is the first.
 * Next is the latest one of what the run has done, then the newest of any branch. */
static int is_nearer(const struct back *b, const struct snapshot *x, const struct snapshot *y)
{
    int now = snapshot_is_now(x, b->s), other = snapshot_is_now(y, b->s);

    return is_noted(b, x)   ? 1
           : is_noted(b, y) ? 0
           : now != other   ? now
           : now            ? x->step > y->step
                            : x->n > y->n;
}

/* passed: snapshots that are there; unknown: such as could not be read, or be mended. */
static int none_whole(const struct back *b, size_t passed, size_t unknown, struct err *err)
{
    if (unknown)
        return err_set(err, -ENOENT, "%s has no snapshot that is known to be whole: let this user "
                       "read and write those that are named above", b->s->dir);
    return err_set(err, -ENOENT, passed ? "%s has no snapshot that is whole, and what was on the "
                   "lost device is nowhere else" : "%s has no complete snapshot "
                   "(--snapshot-every takes them), and what was on the lost device is nowhere "
                   "else", b->s->dir);
}

/* Find the nearest snapshot that is whole, or can be made whole by its parity. Others are passed
 * over, with a notice. The states are not written over before all of their source was read; they
 * are read again as they are written. */
static int find_whole(struct back *b, struct err *err)
{
    struct snapshots *list = &b->others;
    struct err        why;
    uint64_t          mended = 0;
    size_t            passed = 0, unknown = 0;
    int               rc = snapshots_list(list, b->s, err);

    if (!rc && list->unread) {
        rc = session_notice(b->s, err, "a snapshot is passed over, since it cannot be read: %s",
                            list->unread_why.text);
        unknown = file_is_unknown(list->unread) != 0;
    }
    while (!rc && !b->verified) {
        struct snapshot *best = NULL;

        for (struct snapshot *at = list->at; at < list->at + list->n; at++)
            if (!at->tried && (at->whole || (at->files && at->parity)) &&
                (!best || is_nearer(b, at, best)))
                best = at;
        if (!best) {
            rc = none_whole(b, passed, unknown, err);
            break;
        }
        int whole = made_whole(b->s, best, &mended, &why);
        b->at = *best;
        if (whole < 0)
            *err = why, rc = whole;
        b->verified = whole > 0;
        best->tried = 1;
        passed += !whole;
        unknown += !whole && best->denied;
        if (!whole)
            rc = session_notice(b->s, err, "the snapshot after step %" PRIu64 " is passed over: %s",
                                best->step, why.text);
    }
    return rc;
}

/* step NULL: the nearest whole one. */
static int find(struct back *b, const uint64_t *step, struct err *err)
{
    int rc = settings_find(&b->noted, b->s->log, err, "going_back");

    b->half_way = b->noted != NULL;
    if (rc)
        return rc;
    if (b->s->ranks.comm) {
        rc = snapshots_list(&b->others, b->s, err);
        rc = rc ? rc : back_find(&b->at, &b->half_way, b->s, step, &b->others, err);
        b->verified = !rc && !step; // its holder has read it, and who got it has proved it
        return rc;
    }
    return step ? find_step(b, *step, err) : find_whole(b, err);
}

/* Of several ranks: whether all of them have it. */
static int all_have(const struct back *b, int has, struct err *err)
{
    uint64_t with = (uint64_t)has;
    int      rc = together_add(b->s->ranks.comm, &with, NULL, err);

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
        rc = snapshot_is_whole(has->path, snapshot_verify, b->s->events, err);
    snapshots_free(&list);
    if (rc >= 0 && b->s->ranks.comm)
        rc = all_have(b, rc, err);
    if (rc)
        return rc < 0 ? rc : 0;
    // the snapshot of the present state would take that one's name
    if (b->present == b->at.step && snapshot_is_now(&b->at, b->s))
        return err_misuse(err, "%s is at step %" PRIu64 " itself, and other ranks are not: their "
                          "folders are of different times, and a snapshot of these, which is taken "
                          "first, would replace that one: give --from an earlier step", b->s->dir,
                          b->present);
    if (b->present == b->at.step)
        return err_misuse(err, "%s is at step %" PRIu64 " itself, in another branch than that "
                          "snapshot, which the snapshot of the present state would replace: train "
                          "at least a step, and go back then", b->s->dir, b->present);
    rc = b->s->ranks.comm ? make_together(b, err) : snapshot_make(&made, b->s, b->present, err);
    return rc ? err_set(err, rc, "%s; without a snapshot of the present state, %s does not go "
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

/* The options that all ranks share and that are not the snapshot's, a line each. malloced. */
static char *unlike_snapshot(const struct back *b)
{
    const struct opt_row *row;
    char                 *text = NULL;
    size_t                size;
    FILE                 *f = open_memstream(&text, &size);

    for (size_t i = 0; f && (row = train_opts_row(i)); i++) {
        if (row->kept != OPT_BRANCH || !opt_row_decides(row))
            continue;
        char *was = settings_get(b->snapshot.log, "option.%s", row->name);
        char *now = settings_get(b->s->log, "option.%s", row->name);

        if (strcmp(was ? was : "", now ? now : ""))
            fprintf(f, "%s %s\n", row->name, now ? now : "");
        free(was);
        free(now);
    }
    return f && !fclose(f) ? text : NULL;
}

/* Store the branch's word. All ranks get the same. */
static int take_branch(const struct back *b, struct err *err)
{
    char *unlike = unlike_snapshot(b), *was = NULL, *text = NULL;
    int   rc = unlike ? settings_find(&was, b->snapshot.log, err, RECOVERY_BRANCH)
                      : err_set(err, -ENOMEM, "out of memory for the options of a branch");

    if (!rc && !*unlike)
        rc = settings_take(b->s->log, b->snapshot.log, RECOVERY_BRANCH, err);
    else if (!rc && !(text = file_path(err, "%s %" PRIu64 " %s", was ? was : "", b->at.step,
                                       unlike)))
        rc = -ENOMEM;
    if (text)
        rc = settings_set(b->s->log, err, RECOVERY_BRANCH "=%016" PRIx64,
                          hash_bytes(text, strlen(text)));
    free(text);
    free(was);
    free(unlike);
    return rc;
}

/* Make the run what the snapshot is. In the caller's transaction. */
static int record(struct back *b, struct snapshot_put *put, struct err *err)
{
    static const char *const keys[] = { "engine", "schedule.step", "schedule.was",
                                        "option.schedule-steps" };
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
        rc = rc ? rc : schedule_end_record(s, b->at.step, err); // that it keeps
        rc = rc ? rc : runlog_unset(s->log, "finished", err);
        rc = rc ? rc : branches_end(s->log, err);
    }
    rc = rc ? rc : session_store_options(s, 0, err);
    rc = rc ? rc : take_branch(b, err);
    return rc ? rc : notice(b, &left, err);
}

/* Say in run.db that the run is on its way to this snapshot. */
static int begin(const struct back *b, struct err *err)
{
    char to[SESSION_PATH + 64];

    snprintf(to, sizeof to, "%" PRIu64 " %" PRIu64 " %s", b->at.step, b->at.n, b->at.path);
    return branches_begin(b->s->log, to, b->options, err);
}

/* Make the devices that are gone. If none could be made, the run is where it was. */
static int make_lost(struct back *b, int *begun, struct err *err)
{
    struct err why;
    int        untouched, rc = lost_make(b->s, &b->snapshot, &untouched, err);

    if (rc && untouched && !b->half_way && !b->s->ranks.comm && !runlog_begin(b->s->log, &why) &&
        !runlog_end(b->s->log, branches_end(b->s->log, &why), &why))
        *begun = 0;
    return rc;
}

/* rc: the failure of a run that is half way. Append what finishes it. */
static int say_unfinished(const struct back *b, int rc, struct err *err)
{
    char line[SESSION_LINE];

    if (b->restores)
        return err_set(err, rc, "%s; %s is on its way back; type the same command again to "
                       "finish it", err->text, b->s->dir);
    return err_set(err, rc, "%s; %s is on its way back; go on with: %s", err->text, b->s->dir,
                   session_back_line(line, b->s, b->at.step));
}

static int go(struct back *b, struct err *err)
{
    struct session     *s = b->s;
    struct snapshot_put put = { .fd = -1 };
    int begun = 0, rc = b->there || b->verified ? 0 : snapshot_verify(&b->snapshot, err);

    if (rc)
        return say_others(b, session_explain(&b->snapshot, rc, err), err);
    rc = back_wait(s, err); // the parts of all ranks are whole
    if (!rc && !b->there) {
        rc = begin(b, err);
        begun = !rc || b->half_way;
    }
    rc = rc ? rc : back_wait(s, err); // all ranks are marked
    if (b->restores)
        rc = rc ? rc : make_lost(b, &begun, err);
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
    return rc && begun ? say_unfinished(b, rc, err) : rc;
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
    rc = rc ? rc : together_add(s->ranks.comm, &there, NULL, err);
    b->there = !rc && there == size_max(s->ranks.size, 1);
    return rc;
}

/* Whether the resume that follows takes the line's options, too. For that, run.db has those of the
 * snapshot for the time of a transaction that is undone. */
static int check_options(struct back *b, const struct opt_line *line, struct err *err)
{
    struct session *s = b->s;
    struct best     best;
    struct err      why;
    int             rc = b->check ? runlog_begin(s->log, err) : 0;

    if (rc || !b->check)
        return rc;
    rc = session_store_options(s, 0, err);
    rc = rc ? rc : b->check->check(b->check->ctx, s, err);
    rc = rc ? rc : checkpoints_open(s, b->at.step, err); // somebody's folder with such a name
    if (!rc && b->at.step < s->o.steps)
        rc = best_open(&best, s, err); // refuses as the training that follows would
    runlog_rollback(s->log);
    int back = session_reload_options(s, &why);
    free(b->changed);
    b->changed = NULL;
    back = back ? back : session_branch_options(&b->changed, s, &b->snapshot, line, &why);
    if (!rc && back)
        *err = why;
    return rc ? rc : back;
}

static int go_to(struct back *b, const struct opt_line *line, struct err *err)
{
    int rc = session_open(&b->snapshot, b->at.path, SESSION_READ, b->s->events, err);

    rc = rc ? say_others(b, rc, err) : b->restores ? job_run_level_branch(b->s, err) : 0;
    rc = rc ? rc : session_branch_options(&b->changed, b->s, &b->snapshot, line, err);
    rc = rc ? rc : check_options(b, line, err);
    rc = rc ? rc : job_run_alike(b->s, err);
    rc = rc ? rc : job_run_frames(b->s, err);
    rc = rc ? rc : find_present(b, err);
    if (!rc && !b->there)
        rc = say_others(b, best_take_check(b->s, &b->snapshot, err), err);
    if (!rc && !b->there && !b->half_way && !b->restores)
        rc = keep_present(b, err);
    uint64_t goes = !rc && !(b->there && !*b->changed); // of several ranks, if any does
    rc = rc ? rc : together_add(b->s->ranks.comm, &goes, NULL, err);
    if (!rc && goes)
        rc = go(b, err);
    free(b->changed);
    session_close(&b->snapshot);
    return rc;
}

/* step NULL: the nearest whole snapshot. */
static int find_and_go(struct back *b, const uint64_t *step, const struct opt_line *line,
                       struct err *err)
{
    struct made_whole_sum sum = { 0 };
    int                   rc = find(b, step, err);

    if (!rc && line && !(b->options = session_given_options(line)))
        rc = err_set(err, -ENOMEM, "%s: out of memory", b->s->dir);

    if (rc == -ENOENT && b->restores)
        exports_say(b->s->log, b->s->dir, b->s->events, err);
    rc = rc ? rc : go_to(b, line, err);
    if (!rc && b->restores) // the run has its states: now the others
        rc = made_whole_all(b->s, &b->others, &sum, err);
    snapshots_free(&b->others);
    free(b->options);
    free(b->noted);
    return rc;
}

int going_back(struct session *s, uint64_t step, const struct opt_line *line,
               const struct going_back_check *check, struct err *err)
{
    struct back b = { .s = s, .check = check };

    return find_and_go(&b, &step, line, err);
}

int going_back_restore(struct session *s, uint64_t *step, struct err *err)
{
    struct back b = { .s = s, .restores = 1 };
    int         rc = find_and_go(&b, NULL, NULL, err);

    *step = b.at.step;
    return rc;
}
