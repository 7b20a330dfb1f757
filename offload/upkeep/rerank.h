/* rerank.h: a run's states cut for another number of ranks: one new rank's portions are written
 * onto its new devices. Masters and moments are copied, wire parameters are derived from masters
 * again. No bit of the run changes. The old devices are only read. */
#pragma once

#include "offload/upkeep/parts.h"

/* to->log: a copy of the old run's log, in which the rows of subgroups and devices are replaced.
 * watch: progress in subgroups, or NULL. 0 or -errno; after a failure the new devices are removed.
 * Runs with error feedback are not supported. */
int rerank_states(const struct parts *from, const struct run_config *to, const struct watch *watch,
                  struct err *err);
