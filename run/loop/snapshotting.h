/* snapshotting.h: --snapshot-every: when a training takes snapshots (run/folder/snapshots.h). One
 * is taken before the first step, then when a multiple of so many steps are done, and at the end.
 * The step is committed first, and training waits. A failure is a notice, and training goes on. */
#pragma once

#include "offload/stream/stream.h"
#include "run/folder/session.h"

/* Refuse --snapshot-every for a run of which no snapshot can be taken. */
int snapshotting_check(const struct session *s, struct err *err);

/* Between two steps, of which `step` are done: take a snapshot if it is time. first: how many were
 * done when this process began. ends: this was the last one. -EINTR: the end was asked for. */
int snapshotting_step(struct session *s, struct stream *stream, uint64_t step, uint64_t first,
                      int ends, struct err *err);
