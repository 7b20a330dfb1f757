/* csd_hold.h: emulated devices that keep jobs of some kinds waiting until the test lets them go:
 * what does not depend on them must go on, and what does must not. One run at a time. */
#pragma once

#include "csd/csd.h"

/* Hold jobs of these kinds (bits 1 << enum csd_kind) from now on; those of other kinds that were
 * held go to their devices within a second. What is still held when its device is closed is
 * dropped. */
void csd_hold_set(unsigned kinds);

extern const struct csd_ops csd_hold;
