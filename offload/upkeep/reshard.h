/* reshard.h: a run's states moved to other devices, or another number of them, each subgroup cut
 * anew as if the run had been made with these. Masters, moments and residuals are copied, wire
 * parameters made again from the masters; no bit of the run changes.
 *
 * Nothing is lost by a kill: the old devices are only read, and one transaction in run.db makes the
 * run live on the new ones. Files that are not the run's, not yet or no more, stand in run.db
 * (reshard.remove, with the name of their layout) before they are made and until they are gone;
 * reshard_clean, at each opening of a run for writing, removes them. */
#pragma once

#include "offload/layout/config.h"

struct reshard {
    struct run_config from, to; // the same run: to has other n_devices, device_paths, csd_mem,
                                // force_device, and a layout of its own
    /* Store what the run's settings say from now on, inside the transaction that switches. */
    int  (*settings)(void *ctx, struct err *err);
    void *ctx;
    const struct watch *watch; // of subgroups moved, or NULL
    uint64_t bytes; // out: states, wire parameters and residuals written
};

/* -EBUSY where a step is half done (run_train and stream_drain finish it), -EAGAIN where something
 * is listed that reshard_clean could not remove yet. After a failure the run is where it was; after
 * success and reshard_clean(&r->to) it is on the new devices alone. */
int reshard_run(struct reshard *r, struct err *err);

/* Remove the device files, and take the superblocks off the block devices, that run.db lists as not
 * the run's: only those that say themselves that they are of this run and that layout, or say
 * nothing yet and have a name that we gave. notice, empty before, gets a sentence where one could
 * not be removed and was left. What another process uses stays listed, for the next opening;
 * so does all of it where one of cfg's own devices is not there, as after a cleaner went by.
 * outside: those outside RUN, too, which a copy must leave to the run that it is a copy of. */
int reshard_clean(const struct run_config *cfg, int outside, char *notice, size_t notice_size,
                  struct err *err);
