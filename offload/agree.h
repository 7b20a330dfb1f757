/* agree.h: where the ranks of a run go on after a crash. Their journals may be one step apart: some
 * had the commit A of a step when another had not (commits.h). Then the step has not happened:
 * those that have it go back to the one before, whose states all have still. */
#pragma once

#include "offload/config.h"

/* All ranks, before any of them trains; one process alone is at one with itself. -EBADMSG where
 * folders are not of one run, or of another time of it. */
int run_agree(const struct run_config *cfg, struct err *err);
