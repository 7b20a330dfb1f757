/* updater.h: one subgroup in an engine's memory, and the arithmetic of its update. Pure functions,
 * without I/O. */
#pragma once

#include "csd/csd.h"

/* The layout of a buffer set: a slot as it is on the device, then the dense gradient. */
struct update_area {
    size_t     n_pad;
    int        moments;
    enum dtype wire_dt;
    size_t     states_bytes, wire_bytes, grad_bytes;
    float     *states; // (1 + moments, n_pad) master, then moments
    void      *wire;   // (n_pad) of wire_dt
    float     *grad;   // (n_pad)
};

size_t update_area_bytes(size_t n_pad, int moments, enum dtype wire_dt);
void   update_area_init(struct update_area *a, void *mem, size_t n_pad, int moments,
                        enum dtype wire_dt);

/* Checksums of what passes have read and written so far. States have one for each part: the master
 * and each moment. */
enum { UPDATE_PARTS = 3 };
struct update_sums {
    uint32_t read[UPDATE_PARTS], written[UPDATE_PARTS], grad, wire;
};
/* The checksum of whole states, from those of their parts. */
uint32_t update_sums_states(const struct update_area *a, const uint32_t part[UPDATE_PARTS]);

/* Update parameters [first, first + n) of the subgroup, and derive their wire form. Padding stays
 * zero. The same pass adds checksums to *s, and u->bounds and u->overflow grow. Calls go from 0 to
 * n_pad without gaps. */
void update_area_pass(const struct update_area *a, struct csd_update *u, size_t first, size_t n,
                      struct update_sums *s);
