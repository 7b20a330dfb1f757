/* verify.h: reads all of a run's states where they lie, on its devices or in its images, and
 * compares them with the journal's checksums: what training and exports find piece by piece as they
 * read, found at once. Memory: a few MiB a device. Nothing is written, unless it is asked to mend
 * what can be made again from what is whole: a wire shard from its master, in place (a kill leaves
 * it as damaged as it was); a superblock from the run's settings, where the rest of its device is
 * whole; the newest image by going back to the one before (the steps since are computed again, to
 * the same bits). */
#pragma once

#include "offload/layout/config.h"

enum verify_kind { VERIFY_SUPERBLOCK, VERIFY_STATES, VERIFY_WIRE, VERIFY_GRADIENT, VERIFY_RESIDUAL,
                   VERIFY_IMAGE, VERIFY_KINDS };
extern const char *const verify_names[VERIFY_KINDS]; // plural, for a table

struct verify_count { uint64_t n, bytes, damaged, mended; }; // mended of the damaged ones

struct verify {
    // the caller's
    int mend;
    void (*say)(void *ctx, int damage, const char *sentence); // damage 0: a remark
    void *ctx;
    const struct watch *watch; // of bytes read, or NULL
    // what was found
    struct verify_count count[VERIFY_KINDS];
    uint64_t            next_step, applied;
    struct param_set    beyond;    // whose values, or moments, are not finite
    int half_done; // the step before next_step waits to be finished from its gradients
};

/* 0 also where there is damage: the counts tell. -errno: it could not be looked at, or not to the
 * end. */
int verify_run(struct verify *v, const struct run_config *cfg, struct err *err);
