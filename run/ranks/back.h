/* back.h: several ranks go back to a snapshot together (run/loop/going_back.h). All look first; all
 * say in run.db to which snapshot they go (the setting going_back) before any of them writes over
 * its states; all have these before any says that it is there. So after a kill at any moment either
 * no rank has changed, or at least one has the setting, and refuses everything but the command that
 * finishes. That command then takes all ranks there, those too that were there already. */
#pragma once

#include "run/ranks/rank_parts.h"

/* Find the snapshot, and get this rank's part of it here. step NULL: the newest that is whole on
 * all ranks. Each rank reads the parts that it holds; a damaged one is passed over with a notice,
 * and taken from another rank that keeps it, if one does. *half_way: any rank has the setting
 * going_back. own: this rank's snapshots, of which those that are read become `tried`. All ranks
 * call it. */
int back_find(struct snapshot *out, int *half_way, struct session *s, const uint64_t *step,
              struct snapshots *own, struct err *err);

/* The newest snapshot of the parts that were seen, of which each rank's run.db was read and is
 * whole. Damaged ones are left out of the list. s NULL: this rank has no folder yet. dir: for
 * sentences. All ranks call it. */
int back_choose(struct part_seen *out, struct parts_seen *seen, struct session *s,
                struct comm *comm, const struct events *events, const char *dir, struct err *err);

/* Wait until all ranks are here. One that fails ends the others. A single process does not wait. */
int back_wait(const struct session *s, struct err *err);
