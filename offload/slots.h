/* slots.h: the first states of subgroups on new devices: of a run that is made (run.c), or that is
 * moved there (reshard.c). */
#pragma once

#include "offload/devices.h"
#include "offload/journal.h"

struct slots_source {
    /* A subgroup's master and moments ((1 + moments) * n_pad floats) and its residual (n_pad; NULL
     * without error feedback), all of them zero before. */
    int  (*fill)(void *ctx, const struct store_sub *u, float *states, float *residual,
                 struct err *err);
    void *ctx;
    uint64_t            version;   // what the states and residuals are of
    size_t              in_flight; // subgroups in memory: 1, or 2: one is filled beside
    const struct watch *watch;     // of subgroups written, or NULL
};

/* Fill all subgroups, derive their wire, write and flush them; *rows is what the journal is to say
 * of them, the caller's to free also after a failure. Nothing is in flight after it. */
int slots_make(struct devices *d, const struct slots_source *from, struct journal_rows *rows,
               struct err *err);
