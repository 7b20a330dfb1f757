/* traffic.h: what a step must move, computed (docs/design.md, run.db): bytes of payload per link,
 * class and direction. */
#pragma once

#include "csd/link.h"
#include "offload/layout/config.h"

/* One step's payload, all devices together, by what cfg says of mode, blocks, frames, formats,
 * compression and activations (acts.written and acts.read). Where pairs of several groups are added
 * up (pair_sum.h), how many there are follows from the gradients alone: then it is the most that
 * gradients can be. */
void traffic_computed(struct link_meter *out, const struct run_config *cfg);
