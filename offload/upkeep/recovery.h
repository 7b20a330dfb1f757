/* recovery.h: where the ranks of a run go on after a crash. Their journals may be one step apart:
 * some had the commit A of a step when another had not (commits.h). Then the step has not happened:
 * those that have it go back to the one before, whose states all have still. */
#pragma once

#include "offload/layout/config.h"

/* All ranks, before any of them trains; one process alone is at one with itself. -EBADMSG where
 * folders are not of one run, or of another time of it. */
int recovery_run(const struct run_config *cfg, struct err *err);

/* The same by who sees all folders, without changing one. Where a rank's journal is: before which
 * step, behind so many updates, its subgroups from the oldest version to the newest. */
struct recovery_position { uint64_t next_step, applied, oldest, newest; };
int recovery_read(struct recovery_position *out, const struct run_config *cfg, struct err *err);
/* The rank that is behind all others, or one of those that are level. */
size_t recovery_target(const struct recovery_position *all, size_t n);
/* What recovery_run does with a rank, whose folder is `dir`: 0: nothing; 1: it goes back to where
 * recovery_target is; -EBADMSG and a sentence: it refuses. */
int recovery_check(const struct recovery_position *all, size_t n, size_t rank, const char *dir,
                   struct err *err);
