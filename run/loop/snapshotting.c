/* snapshotting.c: decides whether a snapshot is due, takes it, and removes old ones. */
#include "run/loop/snapshotting.h"

#include "run/folder/snapshot_make.h"

int snapshotting_check(const struct session *s, struct err *err)
{
    return s->o.snapshot_every ? snapshot_can(s, err) : 0;
}

/* Whether there is a snapshot of what the run is now. A snapshot of the same step may be of a
 * branch that the run has left: its last step took another time. */
static int is_there(int *any, struct session *s, uint64_t step, struct err *err)
{
    struct snapshots list;
    int              rc = snapshots_list(&list, s, err), found = 0;

    *any = snapshots_newest(&list) != NULL;
    for (size_t i = 0; i < list.n && !rc && !found; i++)
        found = list.at[i].whole && list.at[i].step == step && snapshot_is_now(&list.at[i], s);
    snapshots_free(&list);
    return rc ? rc : found;
}

static int is_due(struct session *s, uint64_t step, uint64_t first, int ends, struct err *err)
{
    int any, found;

    if (!s->o.snapshot_every)
        return 0;
    if (step != first && !ends)
        return step % s->o.snapshot_every == 0;
    if ((found = is_there(&any, s, step, err)))
        return found < 0 ? found : 0;
    return ends || !any || step % s->o.snapshot_every == 0;
}

int snapshotting_step(struct session *s, struct stream *stream, uint64_t step, uint64_t first,
                      int ends, struct err *err)
{
    struct snapshot made;
    struct err      why = { 0 };
    int             rc = is_due(s, step, first, ends, err);

    if (rc <= 0)
        return rc;
    events_kill_costs(s->events, "--resume goes on from the last commit");
    if ((rc = stream_drain(stream, err)))
        return rc;
    rc = snapshot_make(&made, s, step, &why);
    if (!rc)
        return snapshots_rotate(s, err);
    if (rc == -EINTR) {
        *err = why;
        return rc;
    }
    return session_notice(s, why.text, err);
}
