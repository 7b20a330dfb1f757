/* mem_slices.h: the pieces in which mode mem updates parameters, by all threads. */
#pragma once

#include "kernels/update/bounds.h"
#include "offload/layout/config.h"

struct slice {
    size_t block, first, n;
    float  weight_decay;
    struct bounds   bounds;   // of its values
    struct overflow overflow; // in the last update
};

/* Cut all trained blocks into slices, and return how many these are. With slices NULL it only
 * counts, in the same time for any size of block. */
size_t mem_slices(const struct run_config *cfg, struct slice *slices);
