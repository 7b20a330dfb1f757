/* traffic.h: the bytes of payload that a step must move, by link, class and direction
 * (docs/design.md, run.db). They are computed, and what is measured must equal them. */
#pragma once

#include "csd/link.h"
#include "offload/layout/config.h"

/* The payload of one step without a crash, all devices together, from cfg's mode, blocks, frames,
 * formats, compression and activations (acts.written, acts.read). If pairs of several groups are
 * added up (pair_sum.h), their number depends on the gradients. *out then has the most that there
 * can be. */
void traffic_computed(struct link_meter *out, const struct run_config *cfg);
