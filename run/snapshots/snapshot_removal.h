/* snapshot_removal.h: which snapshots of a run (snapshots.h) are removed, and how. */
#pragma once

#include "run/snapshots/snapshots.h"

/* Remove the snapshot at this path, which must be certainly the run's. -EBUSY: somebody reads it.
 * What is not on its list of files stays. */
int snapshot_remove(struct session *s, const char *path, struct err *err);
/* Remove a snapshot whose name another one has taken. If somebody reads it, a later rotation
 * removes it. name: that name; path: where it is now. */
int snapshot_replaced(struct session *s, const char *path, const char *name,
                      struct err *err);
/* A folder in RUN/snapshots that has the name of a new snapshot, and a damaged run.db, gets another
 * name, with a notice. Nothing can be known of it, so it is not removed. */
int snapshot_put_aside(struct session *s, const char *path, struct err *err);
/* Remove the oldest snapshots of the run, so that s->o.snapshots whole ones are left: first those
 * of branches that the run has left. A failure is a notice. */
int snapshots_rotate(struct session *s, struct err *err);
/* Remove what killed processes have left of snapshots that they made or removed. rotate does, too.
 */
void snapshots_clean(struct session *s);
