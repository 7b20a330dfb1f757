/* snapshotting.c: decides whether a snapshot is due, begins it, and ends it when it is copied: it
 * gets its name, and old ones are removed. Ranks agree on each, between two steps. */
#include "run/loop/snapshotting.h"

#include "model/together.h"
#include "run/ranks/carry.h"
#include "run/ranks/keeping.h"
#include "run/snapshots/portions.h"
#include "run/snapshots/snapshot_places.h"
#include "run/snapshots/snapshot_removal.h"

/* Whether each rank's part lies with another rank. */
static int is_kept(const struct session *s) { return s->o.snapshot_on == TRAIN_SNAPSHOTS_HOSTS; }

enum { LATE_SECONDS = 2 };

int snapshotting_check(struct session *s, struct err *err)
{
    uint64_t every = s->o.snapshot_every;
    size_t   ranks = s->ranks.comm ? s->ranks.comm->size : 1;
    int      rc = every ? snapshot_can(s, err) : 0;

    if (!rc && every)
        rc = snapshot_places_check(s, err);
    if (!rc && every && s->o.snapshot_on == TRAIN_SNAPSHOTS_DEVICES)
        rc = portions_can(s->dir, err);
    if (!rc && every && s->o.snapshot_on == TRAIN_SNAPSHOTS_DEVICES)
        rc = portions_notice(s, err);
    if (!rc && every && is_kept(s) && ranks == 1)
        rc = err_misuse(err, "--snapshot-on hosts is for several ranks (mpirun), and this is one "
                        "process: leave it out");
    rc = rc ? rc : together_add(s->ranks.comm, &every, NULL, err);
    if (!rc && every != ranks * s->o.snapshot_every)
        rc = err_misuse(err, "--snapshot-every is %" PRIu64 " on rank %zu, and another number on "
                        "another rank: give all of them the same", s->o.snapshot_every,
                        s->ranks.rank);
    return rc;
}

/* Whether there is a snapshot of what the run is now. A snapshot of the same step may be of a
 * branch that the run has left: its last step took another time. */
static int is_there(int *any, struct session *s, uint64_t step, struct err *err)
{
    struct snapshots list;
    int              rc = snapshots_list(&list, s, err), found;

    *any = snapshots_newest(&list) != NULL;
    found = !rc && snapshots_present(&list, s, step);
    snapshots_free(&list);
    return rc ? rc : found;
}

static int is_due(struct session *s, uint64_t step, enum snapshotting_when when, struct err *err)
{
    int any, found;

    if (when == SNAPSHOTTING_BETWEEN)
        return step % s->o.snapshot_every == 0;
    if ((found = is_kept(s) ? keeping_is_there(&any, s, step, err) : is_there(&any, s, step, err)))
        return found < 0 ? found : 0;
    return when == SNAPSHOTTING_ENDS || !any || step % s->o.snapshot_every == 0;
}

/* Records what snapshots have moved. It counts as the next step's. */
static void measure(const struct snapshotting *w, const struct link_meter *moved)
{
    if (w->stream && link_meter_total(moved))
        meter_traffic(w->stream->meter, w->now, PHASE_SNAPSHOT, -1, moved);
}

/* The same of the snapshot under way, since the last call. */
static void measure_making(const struct snapshotting *w)
{
    struct link_meter moved = { 0 };

    if (w->making)
        snapshot_moved(w->making, &moved);
    measure(w, &moved);
}

/* The training has waited since then. */
static void measure_wait(const struct snapshotting *w, uint64_t begun_ns)
{
    if (w->stream)
        meter_span(w->stream->meter, w->now, PHASE_SNAPSHOT, -1, -1, begun_ns, clock_ns(), 0);
}

static int rotate(struct session *s, struct err *err)
{
    return is_kept(s) ? keeping_rotate(s, err) : snapshots_rotate(s, err);
}

/* What came of a snapshot, on all ranks alike: one that is not taken by all is none. *again: the
 * next directory is tried. made: NULL: it was only begun. */
static int settle(struct snapshotting *w, int rc, const struct snapshot *made, int *again,
                  struct err *why, struct err *err)
{
    struct session   *s = w->s;
    struct link_meter moved = { 0 };
    struct err        unsaid;
    int               failed = rc, joined = 0, unkept = 0;

    if (s->ranks.comm)
        joined = carry_agree(s->ranks.comm, rc, &failed, why, err);
    if (!joined && !failed && made && is_kept(s)) {
        joined = keeping_send(s, made, &moved, &unkept, why, err);
        measure(w, &moved);
        failed = unkept;
    }
    if (joined || !failed)
        return joined || !made ? joined : rotate(s, err);
    if (!made)
        snapshot_drop(w->making);
    w->making = NULL;
    if (rc == -EINTR && !s->ranks.comm)
        return *err = *why, rc;
    if (rc == -EINTR) // all ranks end after the next step
        return 0;
    if (!rc && made)
        snapshot_remove(s, made->path, &unsaid);
    *again = rc && w->tried < s->o.snapshot_dir.n;
    if (*again)
        return session_notice(s, err, "%s: the next --snapshot-dir is tried", why->text);
    return session_notice(s, err, "no snapshot after step %" PRIu64 "%s: %s", w->step,
                          unkept ? ", since not all parts are on the next hosts" : "", why->text);
}

/* Says, once, that a snapshot was due before the one before it was copied. */
static int notice_late(struct snapshotting *w, uint64_t begun_ns, struct err *err)
{
    double waited = (double)(clock_ns() - begun_ns) * 1e-9;

    if (waited < LATE_SECONDS || w->said)
        return 0;
    w->said = 1;
    return session_notice(w->s, err, "training waited %.0f s for the snapshot after step %" PRIu64
                          ", which was still being copied when the next one was due: a larger "
                          "--snapshot-every or --snapshot-bw, or another --snapshot-dir, avoids "
                          "that", waited, w->step);
}

/* Ends the snapshot under way if all ranks have copied theirs; must: waits for that. */
static int go_on(struct snapshotting *w, int must, int *again, struct err *err)
{
    struct snapshot made;
    struct err      why = { 0 };
    uint64_t        begun_ns = clock_ns(), over;
    size_t          ranks = w->s->ranks.comm ? w->s->ranks.comm->size : 1;
    int             rc, waited = must ? snapshot_wait(w->making, &why) : 0;

    over = must || snapshot_over(w->making);
    if ((rc = together_add(w->s->ranks.comm, &over, NULL, err)) || over < ranks)
        return rc;
    if (w->stream && (rc = stream_drain(w->stream, err)))
        return rc;
    if (must && w->stream && !waited && (rc = notice_late(w, begun_ns, err)))
        return rc;
    w->tried = snapshot_tried(w->making);
    measure_making(w);
    if (waited == -EINTR)
        snapshot_drop(w->making);
    else
        waited = snapshot_finish(&made, w->making, &why);
    w->making = NULL;
    measure_wait(w, begun_ns);
    return settle(w, waited, &made, again, &why, err);
}

/* Begins one. With nothing left to train (ends), it is taken at once. */
static int begin(struct snapshotting *w, uint64_t step, int ends, int *again, struct err *err)
{
    struct snapshot_ask ask = { step, w->tried, .beside = ends ? NULL : w->stream };
    struct err          why = { 0 };
    uint64_t            begun_ns = clock_ns();
    int                 rc;

    events_kill_costs(w->s->events, "--resume goes on from the last commit");
    if (w->stream && (rc = stream_drain(w->stream, err)))
        return rc;
    w->step = step;
    rc = snapshot_begin(&w->making, w->s, &ask, &why);
    w->tried = rc ? SIZE_MAX : snapshot_tried(w->making);
    measure_wait(w, begun_ns);
    rc = settle(w, rc, NULL, again, &why, err);
    return rc || !ends || !w->making ? rc : go_on(w, 1, again, err);
}

/* The same when training ends: no later step tries the next directory, so this does. On a rank that
 * has not failed, the same directory is used again. */
static int begin_last(struct snapshotting *w, uint64_t step, struct err *err)
{
    uint64_t all;
    int      again, rc;

    do {
        again = 0;
        rc = begin(w, step, 1, &again, err);
        all = (uint64_t)again;
        rc = rc ? rc : together_add(w->s->ranks.comm, &all, NULL, err);
        w->tried -= !again && w->tried > 0 && w->tried != SIZE_MAX;
    } while (!rc && all);
    return rc;
}

int snapshotting_step(struct snapshotting *w, uint64_t step, enum snapshotting_when when,
                      struct err *err)
{
    struct session *s = w->s;
    int             ends = when == SNAPSHOTTING_ENDS, again = 0, rc = 0, due;

    if (!s->o.snapshot_every)
        return 0;
    w->now = step;
    measure_making(w);
    if (w->making)
        rc = go_on(w, ends || step % s->o.snapshot_every == 0, &again, err);
    if (rc || (due = is_due(s, step, when, err)) < 0)
        return rc ? rc : due;
    uint64_t all = due || again;
    if ((rc = together_add(s->ranks.comm, &all, NULL, err)))
        return rc;
    if (!all && when == SNAPSHOTTING_BEGINS)
        snapshots_clean(s);
    if (!all) // a process may have been killed before it removed the oldest
        return ends ? rotate(s, err) : 0;
    w->tried = again ? w->tried : 0;
    return ends ? begin_last(w, step, err) : begin(w, step, 0, &again, err);
}

int snapshotting_stop(struct snapshotting *w, struct err *err)
{
    if (!w->making)
        return 0;
    snapshotting_close(w);
    return session_notice(w->s, err, "the snapshot after step %" PRIu64 " was not copied yet when "
                          "the training was stopped, so it is dropped", w->step);
}

void snapshotting_close(struct snapshotting *w)
{
    snapshot_drop(w->making);
    w->making = NULL;
}
