/* snapshotting.c: decides whether a snapshot is due, takes it, and removes old ones. */
#include "run/loop/snapshotting.h"

#include "model/together.h"
#include "run/folder/snapshot_make.h"
#include "run/folder/snapshot_removal.h"
#include "run/ranks/keeping.h"

/* Whether each rank's part lies with another rank. */
static int is_kept(const struct session *s) { return s->o.snapshot_on == TRAIN_SNAPSHOTS_HOSTS; }

int snapshotting_check(const struct session *s, struct err *err)
{
    uint64_t every = s->o.snapshot_every, none = 0;
    size_t   ranks = s->ranks.comm ? s->ranks.comm->size : 1;
    int      rc = every ? snapshot_can(s, err) : 0;

    if (!rc && every && is_kept(s) && ranks == 1)
        rc = err_misuse(err, "--snapshot-on hosts is for several ranks (mpirun), and this is one "
                        "process: leave it out");

    rc = rc ? rc : together_add(s->ranks.comm, &every, &none, err);
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

/* Records what was moved: read from the run's devices, written, and read back. It counts as the
 * next step's. */
static void measure(struct meter *meter, uint64_t step, uint64_t begun_ns,
                    const struct snapshot *made)
{
    struct link_meter moved = { 0 };
    size_t            copied = made->states - made->shared;

    link_meter_count(&moved, LINK_HOST, CLASS_STATES, LINK_READ, copied, copied);
    link_meter_count(&moved, LINK_FILES, CLASS_STATES, LINK_WRITE, copied, copied);
    link_meter_count(&moved, LINK_FILES, CLASS_STATES, LINK_READ, made->states, made->states);
    meter_traffic(meter, step, PHASE_SNAPSHOT, -1, &moved);
    meter_span(meter, step, PHASE_SNAPSHOT, -1, -1, begun_ns, clock_ns(), copied + made->states);
}

static int rotate(struct session *s, struct err *err)
{
    return is_kept(s) ? keeping_rotate(s, err) : snapshots_rotate(s, err);
}

/* What came of a snapshot, on all ranks alike: one that is not taken by all is none. */
static int settle(struct session *s, int rc, const struct snapshot *made, struct err *why,
                  struct err *err)
{
    uint64_t   failed = rc != 0, none = 0;
    struct err unsaid;
    int        joined = together_add(s->ranks.comm, &failed, &none, err), unkept = 0;

    if (!joined && !failed && is_kept(s)) {
        joined = keeping_send(s, made, &unkept, why, err);
        failed = unkept != 0;
    }
    if (joined || !failed)
        return joined ? joined : rotate(s, err);
    if (rc == -EINTR && !s->ranks.comm)
        return *err = *why, rc;
    if (rc == -EINTR) // all ranks end after the next step
        return 0;
    if (!rc)
        snapshot_remove(made->path, &unsaid);
    if (!rc && unkept)
        err_set(why, 0, "no snapshot after step %" PRIu64 ", since not all parts are on the next "
                "hosts: %.700s", made->step, why->text);
    else if (!rc)
        err_set(why, 0, "no snapshot after step %" PRIu64 ": another rank could not take it",
                made->step);
    return session_notice(s, why->text, err);
}

int snapshotting_step(struct session *s, struct stream *stream, uint64_t step,
                      enum snapshotting_when when, struct err *err)
{
    struct snapshot made;
    struct err      why = { 0 };

    if (!s->o.snapshot_every)
        return 0;
    int      due = is_due(s, step, when, err), rc;
    uint64_t all = due > 0, none = 0;
    if (due < 0 || (rc = together_add(s->ranks.comm, &all, &none, err)))
        return due < 0 ? due : rc;
    if (!all && when == SNAPSHOTTING_BEGINS)
        snapshots_clean(s);
    if (!all) // a process may have been killed before it removed the oldest
        return when == SNAPSHOTTING_ENDS ? rotate(s, err) : 0;
    events_kill_costs(s->events, "--resume goes on from the last commit");
    if (stream && (rc = stream_drain(stream, err)))
        return rc;
    uint64_t begun_ns = clock_ns();
    rc = snapshot_make(&made, s, step, &why);
    if (!rc && stream)
        measure(stream->meter, step, begun_ns, &made);
    return settle(s, rc, &made, &why, err);
}
