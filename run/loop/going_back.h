/* going_back.h: `--resume RUN --from STEP`: a run goes back to one of its snapshots (snapshots.h)
 * and goes on from there, with other options or with the same ones.
 *
 * What was done beyond the snapshot is a branch: its rows stay in run.db (branches.h), and a
 * snapshot of the present state is taken first, unless there is one. So the run can go to that one
 * in the same way.
 *
 * The snapshot's states are written over the run's, since both are whole elsewhere. run.db says so
 * before (setting going_back) until one transaction has made the run what the snapshot is. After a
 * kill in between, only the same command opens the run, and finishes. */
#pragma once

#include "run/folder/session.h"

/* s is open as SESSION_BACK. line: the command line, whose options the run is to go on with. They
 * are checked before anything changes. Afterwards the caller closes s and opens the run again. 0,
 * also if the run is at this snapshot with these options already; or -errno. */
int going_back(struct session *s, uint64_t step, const struct opt_line *line, struct err *err);

/* `siTrain restore`: go to the newest whole snapshot, after the devices that are gone were made
 * again (lost.h). s is open as SESSION_RESTORE. *step: the snapshot's. What the run has done since
 * is a branch, although --resume computes the same again. */
int going_back_restore(struct session *s, uint64_t *step, struct err *err);
