/* updater.h: one subgroup in accelerator memory and the arithmetic on it, without any I/O; what a
 * device's engine does. */
#pragma once

#include "csd/csd.h"

/* Where things lie in a buffer set: a slot as it is on the device, then the dense gradient. */
struct update_area {
    size_t     n_pad;
    int        moments;
    enum dtype wire_dt;
    size_t     states_bytes, wire_bytes, grad_bytes;
    float     *states; // master, then the moments; n_pad each
    void      *wire;
    float     *grad;
};

size_t update_area_bytes(size_t n_pad, int moments, enum dtype wire_dt);
void   update_area_init(struct update_area *a, void *mem, size_t n_pad, int moments,
                        enum dtype wire_dt);

/* The checksums of what a pass has read and written so far: of the states' parts, the master and
 * the moments, each for itself. */
enum { UPDATE_PARTS = 3 };
struct update_sums {
    uint32_t read[UPDATE_PARTS], written[UPDATE_PARTS], grad, wire;
};
/* Of the states as a whole, from those of their parts. */
uint32_t update_sums_states(const struct update_area *a, const uint32_t part[UPDATE_PARTS]);

/* Update parameters [first, first + n) of the subgroup, and derive their wire form; padding stays
 * zero. All that is read and written is summed in the same pass, and what u says of how far values
 * reach grows; a pass goes from 0 on without gaps. */
void update_area_pass(const struct update_area *a, struct csd_update *u, size_t first, size_t n,
                      struct update_sums *s);
