/* owner.h: the random word that a run's devices get when their user names them with --device. It
 * stops a copy of the run from using or removing them.
 *
 * The word is first written to run.db (`owner.next`), then to all superblocks, then to run.db again
 * (`owner`). After a kill in between, either word fits. */
#pragma once

#include "offload/devices/devices.h"

/* Give the open devices a new word. owner, next: both words as in run.db; they are brought up to
 * date. settle: what else is written with the second commit; it runs
 * inside its transaction. */
int owner_take(struct devices *d, char owner[SUPERBLOCK_WORD], char next[SUPERBLOCK_WORD],
               int (*settle)(void *ctx, struct err *err), void *ctx, struct err *err);
