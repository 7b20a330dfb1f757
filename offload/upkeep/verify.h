/* verify.h: reads all of a run's states, on its devices or in its images, and compares them with
 * the journal's checksums. Training and exports find the same damage, but only when they read it.
 * It needs a few MiB for each device, and waits.
 *
 * Nothing is written unless `mend` is set. Then damage is repaired from what is whole: wire
 * parameters from their master, in place (a kill leaves them as damaged as before); a superblock
 * from the run's settings, if the rest of its device is whole; the newest image by going back to
 * the older one (the steps since are computed again, to the same bits). Frozen parameters are
 * stored once, and cannot be repaired. */
#pragma once

#include "offload/devices/areas.h"
#include "offload/upkeep/beside.h"

struct verify {
    // set by the caller
    int mend;
    void (*say)(void *ctx, int damage, const char *sentence); // damage 0: a remark
    void *ctx;
    const struct watch *watch; // progress in bytes read, or NULL
    struct beside *beside;     // the pace of reading next to a training, or NULL
    enum link_kind link;       // with beside: over which all is read
    int frozen_known; // mode mem: the file of frozen blocks was just compared, and is not read
    // results
    struct verify_count count[VERIFY_KINDS];
    uint64_t            next_step, applied;
    struct param_set    beyond;    // parameters with a value or moment that is not finite
    int                 half_done; // the step before next_step must be finished from its gradients
};

/* 0 also if there is damage, which the counts tell. -errno: the states could not be read to the
 * end. */
int verify_run(struct verify *v, const struct run_config *cfg, struct err *err);
