/* agree.h: where the ranks of a run go on after a crash. Their journals may be one step apart: some
 * had the commit A of a step when another had not (commits.h). Then the step has not happened:
 * those that have it go back to the one before, whose states all have still. */
#pragma once

#include "offload/config.h"

/* All ranks, before any of them trains; one process alone is at one with itself. -EBADMSG where
 * folders are not of one run, or of another time of it. */
int run_agree(const struct run_config *cfg, struct err *err);

/* The same by who sees all folders, without changing one. Where a rank's journal is: before which
 * step, behind so many updates, its subgroups from the oldest version to the newest; and a sum of
 * what its last two steps gave, the later one first (0: not known), the same on all ranks. */
struct agree_place { uint64_t next_step, applied, oldest, newest, gave[2]; };
int agree_read(struct agree_place *out, const struct run_config *cfg, struct err *err);
/* The rank that is behind all others, or one of those that are level. */
size_t agree_first(const struct agree_place *all, size_t n);
/* What run_agree does with a rank, whose folder is `dir`: 0: nothing; 1: it goes back to where
 * agree_first is; -EBADMSG and a sentence: it refuses. */
int agree_judge(const struct agree_place *all, size_t n, size_t rank, const char *dir,
                struct err *err);
