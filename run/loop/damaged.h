/* damaged.h: devices of a run that are there, and damaged: zeroed, cut short, with other bytes, or
 * with blocks that their drive cannot read. `siTrain restore` writes all states again, from a
 * snapshot (going_back.h); before that, such a device is made one that can be opened. */
#pragma once

#include "run/folder/session.h"

/* Read all states of the run, and count what is damaged. The first damage is a notice. */
int damaged_count(const struct session *s, uint64_t *n, struct err *err);

/* Give devices that were cut their length, and write damaged superblocks again: only of devices
 * whose file has the run's name, or that have a damaged superblock or zeros. Devices that are gone
 * are left out. */
int damaged_open_up(const struct session *s, struct err *err);
