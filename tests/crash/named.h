/* named.h: a run whose user names its devices with --device, as run/folder/moved.c marks them, next
 * to the devices of a copy of the run. */
#pragma once

#include "offload/layout/store.h"
#include "tests/crash/life.h"

/* Give a new run's devices a first word, and its copy's devices, which it makes, another. */
int named_begin(const struct run_config *run, struct err *err);

/* What --resume RUN --device does: the devices get a new word. Before it, and after it, the run and
 * its copy must refuse each other's devices; otherwise -EPROTO without a sentence, and what is
 * wrong is printed. owner, next: as owner_take has them. */
int named_take(struct run_config *run, char owner[SUPERBLOCK_WORD], char next[SUPERBLOCK_WORD],
               struct err *err);
