/* snapshotting.h: --snapshot-every: when a training takes snapshots (run/folder/snapshots.h). One
 * is taken before the first step, then when a multiple of so many steps are done, and at the end.
 * The step is committed first. The training goes on while the states are copied; the next snapshot
 * waits for that, and so does the end. A failure is a notice. */
#pragma once

#include "offload/stream/stream.h"
#include "run/folder/session.h"
#include "run/folder/snapshot_make.h"

/* Refuse --snapshot-every for a run of which no snapshot can be taken. */
int snapshotting_check(struct session *s, struct err *err);

struct snapshotting {
    struct session *s;
    struct stream  *stream; // what trains; NULL: nothing does, and all steps are complete
    // private
    struct snapshot_making *making; // the one under way
    uint64_t                step;   // that it is of
    uint64_t                now;    // steps that are done
    size_t                  tried;  // directories
    int                     said;   // that one was late
};

/* BEGINS: before the first step of this process. ENDS: nothing is left to train. */
enum snapshotting_when { SNAPSHOTTING_BEGINS, SNAPSHOTTING_BETWEEN, SNAPSHOTTING_ENDS };

/* `step` steps are done, and none is under way: end the snapshot under way if it is copied, and
 * begin one if it is time. -EINTR: the end was asked for. */
int  snapshotting_step(struct snapshotting *w, uint64_t step, enum snapshotting_when when,
                       struct err *err);
/* The training was stopped, and the stream is drained: drop the snapshot under way, and say so. */
int  snapshotting_stop(struct snapshotting *w, struct err *err);
/* Drops the snapshot under way. Before the stream is closed; accepts the zero state. */
void snapshotting_close(struct snapshotting *w);
