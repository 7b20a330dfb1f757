/* snapshotting.h: --snapshot-every: when a training takes snapshots (run/folder/snapshots.h). One
 * is taken before the first step, then when a multiple of so many steps are done, and at the end.
 * The step is committed first, and training waits. A failure is a notice, and training goes on. */
#pragma once

#include "offload/stream/stream.h"
#include "run/folder/session.h"

/* Refuse --snapshot-every for a run of which no snapshot can be taken. */
int snapshotting_check(struct session *s, struct err *err);

/* BEGINS: before the first step of this process. ENDS: nothing is left to train. */
enum snapshotting_when { SNAPSHOTTING_BEGINS, SNAPSHOTTING_BETWEEN, SNAPSHOTTING_ENDS };

/* `step` steps are done, and none is under way: take a snapshot if it is time. stream: what trains;
 * NULL: nothing does, and all steps are complete. -EINTR: the end was asked for. */
int snapshotting_step(struct session *s, struct stream *stream, uint64_t step,
                      enum snapshotting_when when, struct err *err);
