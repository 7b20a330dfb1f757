/* going_back.h: `--resume RUN --from STEP`: a run goes back to one of its snapshots (snapshots.h)
 * and goes on from there, with other options or with the same ones.
 *
 * What was done beyond the snapshot is a branch: its rows stay in run.db (branches.h), and a
 * snapshot of the present state is taken first, unless there is one. So the run can go to that one
 * in the same way.
 *
 * The snapshot's states are written over the run's, since both are whole elsewhere. run.db says so
 * before (setting going_back) until one transaction has made the run what the snapshot is. After a
 * kill in between, only going back opens the run: to the same snapshot, or to another one. */
#pragma once

#include "run/folder/session.h"

/* What else has to be known before anything changes: whether the resume that follows takes the
 * options of the command line. During check, s and run.db have the snapshot's options, and those
 * that the line gives the branch. What check stores is undone; it begins no transaction. */
struct going_back_check { int (*check)(void *ctx, struct session *s, struct err *err); void *ctx; };

/* s is open as SESSION_BACK. line: the command line, whose options the run is to go on with. They
 * are checked before anything changes; check may be NULL. Afterwards the caller closes s and opens
 * the run again. 0, also if the run is at this snapshot with these options already; or -errno. */
int going_back(struct session *s, uint64_t step, const struct opt_line *line,
               const struct going_back_check *check, struct err *err);

/* `siTrain restore`: go to the nearest whole snapshot, after the devices that are gone were made
 * again (lost.h). Damaged snapshots are passed over, with a notice. s is open as SESSION_RESTORE.
 * *step: the snapshot's. What the run has done since is a branch, although --resume computes the
 * same again. */
int going_back_restore(struct session *s, uint64_t *step, struct err *err);
