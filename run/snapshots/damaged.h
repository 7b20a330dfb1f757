/* damaged.h: `siTrain restore` of a run whose devices are there, but have areas that cannot be
 * read, or are not what was written. Damage is proved by reading: everything is compared with the
 * journal's checksums. The run then goes back to a snapshot (going_back.h), which writes all states
 * again, in place. */
#pragma once

#include "run/folder/session.h"

/* Read all states. *n: how many areas are damaged that only a snapshot has again; each is a notice.
 * Wire parameters do not count: siTrain check --repair makes them again, and a notice says so.
 * *wire: how many of these are damaged. A device with a damaged superblock was not read. */
int damaged_count(struct session *s, uint64_t *n, uint64_t *wire, struct err *err);

/* If rc is the failure of a read of the states of a run that has a complete snapshot, append to the
 * sentence how siTrain restore goes back to it. Returns rc. */
int damaged_explain(struct session *s, int rc, struct err *err);

/* Give devices that were cut their length, and write damaged superblocks again: only of devices
 * whose file has the run's name, or that have a damaged superblock or zeros. Devices that are gone
 * are left out. *wrote: something was written. */
int damaged_open_up(const struct session *s, int *wrote, struct err *err);
