/* rerank.h: the states of a run, of all its ranks, cut for another number of them: what one of the
 * new ranks has, onto its new devices. Masters and moments are copied, wire parameters made again
 * from the masters; no bit of the run changes. The old devices are only read. */
#pragma once

#include "offload/upkeep/parts.h"

/* to->log: a copy of the old run's, whose rows of subgroups and devices are replaced. On failure
 * the new devices are gone. Without error feedback. */
int rerank_states(const struct parts *from, const struct run_config *to, const struct watch *watch,
                  struct err *err);
