/* disk_sim.h: a disk on simulated storage (storage.h). Requests complete in any order, when the
 * seed says (threads.h); after the cut all fail. */
#pragma once

#include "csd/disk/disk.h"

extern const struct disk_ops disk_sim;
