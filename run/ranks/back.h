/* back.h: several ranks go back to a snapshot together (run/loop/going_back.h). All look first; all
 * say in run.db to which snapshot they go (the setting going_back) before any of them writes over
 * its states; all have these before any says that it is there. So after a kill at any moment either
 * no rank has changed, or at least one has the setting, and refuses everything but the command that
 * finishes. That command then takes all ranks there, those too that were there already. */
#pragma once

#include "run/ranks/kept.h"

/* Find the snapshot, and get this rank's part of it here. step NULL: the newest that all have.
 * *half_way: any rank has the setting going_back. All ranks call it. */
int back_find(struct snapshot *out, int *half_way, struct session *s, const uint64_t *step,
              struct err *err);

/* The first half of it: choose the snapshot, of the parts that were seen. Only those of a rank that
 * is half way are left in the list. s NULL: this rank has no folder yet. dir: for sentences. */
int back_choose(struct part_seen *out, int *half_way, struct parts_seen *seen,
                const struct session *s, struct comm *comm, const uint64_t *step, const char *dir,
                struct err *err);

/* Wait until all ranks are here. One that fails ends the others. A single process does not wait. */
int back_wait(const struct session *s, struct err *err);

/* *n becomes the sum over all ranks. */
int back_add(const struct session *s, uint64_t *n, struct err *err);
