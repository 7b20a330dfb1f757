/* recovery.h: where the ranks of a run go on after a crash. Their journals may be one step apart,
 * if some ranks had committed A of a step and another had not (commits.h). The step has then not
 * happened: ranks that have its A return to the step before, whose states all ranks still have. */
#pragma once

#include "offload/layout/config.h"

/* A setting: a word that names the snapshots from which the run went on with other options, and
 * those options; absent: there were none. Two folders at one step may have the same results of
 * their last step and other states, since some options act after the gradient. */
#define RECOVERY_BRANCH "branch"

/* Every rank calls this before any of them trains; it waits for all. With one process alone it does
 * nothing. 0 or -errno; -EBADMSG: the folders are not of one run, or not of the same time. */
int recovery_run(const struct run_config *cfg, struct err *err);

/* recovery_read is for a process that sees all folders and changes none. The position of a rank's
 * journal: the next step, the number of updates, the oldest and newest version of its trained
 * subgroups (oldest > newest: it has none), a checksum of the results of its last two steps, the
 * later one first (0: not known), and one of RECOVERY_BRANCH (0: absent). All ranks of a training
 * have the same results, and the same branch. */
struct recovery_position { uint64_t next_step, applied, oldest, newest, gave[2], branch; };
int recovery_read(struct recovery_position *out, const struct run_config *cfg, struct err *err);
/* all: (n) of every rank. The rank with the lowest next step, to which the others return. */
size_t recovery_target(const struct recovery_position *all, size_t n);
/* What recovery_run does with `rank`, whose folder is `dir`. 0: nothing; 1: it returns to the
 * position of recovery_target; -EBADMSG and a sentence: it refuses. */
int recovery_check(const struct recovery_position *all, size_t n, size_t rank, const char *dir,
                   struct err *err);
