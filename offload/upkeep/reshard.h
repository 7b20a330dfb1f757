/* reshard.h: moves a run's states to other devices, or to another number of devices. Subgroups are
 * cut again as if the run had been made with the new devices. Masters, moments and residuals are
 * copied, wire parameters are derived from masters again. No bit of the run changes.
 *
 * A kill loses nothing: the old devices are only read, and one transaction in run.db switches the
 * run to the new ones. run.db lists device files that are not the run's, not yet or no longer
 * (reshard.remove, with the name of their layout), before they are made and until they are removed.
 * reshard_clean removes them whenever a run is opened for writing. */
#pragma once

#include "offload/layout/config.h"

struct reshard {
    struct run_config from, to; // the same run; `to` has other n_devices, device_paths, csd_mem,
                                // force_device, and another layout
    /* Called once the old devices are open, which shows that they are the run's, and before
     * reshard.remove lists anything. May be NULL. */
    int  (*settle)(void *ctx, struct err *err);
    /* Stores the run's new settings, inside the transaction that switches. */
    int  (*settings)(void *ctx, struct err *err);
    void *ctx;
    const struct watch *watch; // progress in subgroups moved, or NULL
    uint64_t bytes;            // result: states, wire parameters and residuals written
};

/* 0 or -errno. -EBUSY: a step is half done (run_train and stream_drain finish it). -EAGAIN:
 * something is listed that reshard_clean could not remove yet. After a failure the run is where it
 * was. After success and reshard_clean(&r->to) it is on the new devices alone. */
int reshard_run(struct reshard *r, struct err *err);

/* Remove the listed device files, and clear the superblocks of listed block devices. A device is
 * removed only if its superblock names this run and that layout, or if it has no superblock yet and
 * a name that siTrain gave. notice, empty before, gets a sentence if a device could not be removed
 * and was left. A device that another process uses stays listed, and so do those after it, for the
 * next opening. All of them stay listed if one of cfg's own devices is missing. outside: also
 * remove devices outside RUN; a copy of a run must leave these to the original. -ESTALE: another
 * process has written to the run since it was opened, and nothing was removed. */
int reshard_clean(const struct run_config *cfg, int outside, char *notice, size_t notice_size,
                  struct err *err);
