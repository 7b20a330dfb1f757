/* store.h: where everything lies on the devices: blocks -> shards -> subgroups -> slots and
 * gradient areas. Pure arithmetic from a run's settings; fixed when the run is created, the same
 * every time after.
 *
 * A device: [superblock | slots of each size class | a gradient area for each subgroup, with error
 * feedback two areas for its residual behind it]. Everything starts at multiples of 4 KiB; a
 * subgroup's range starts at a multiple of CSD_ALIGN_PARAMS parameters of its block. */
#pragma once

#include "data/base/round.h"
#include "offload/layout/config.h"

enum { STORE_SUPERBLOCK = 4096, STORE_MIN_SPARES = 4, STORE_FEW_SPARES = 2 };
enum { STORE_MAX_SUBGROUP = 4 << 20, STORE_MAX_SUBGROUPS = 1 << 22 }; // parameters; subgroups

struct store_sub {
    size_t   block, device;
    size_t   first, n, n_pad; // parameters [first, first + n) of its block
    size_t   class_;          // of its slots, on its device
    uint32_t first_slot;      // the one that it is made in
    uint64_t grad_off;        // its gradient area
    size_t   grad_bytes;      // size of that area
    uint64_t residual_off; // its two residual areas, store_residual_bytes each; with error feedback
};

/* Slots of one size on one device. */
struct store_class {
    size_t   device, n_pad;
    size_t   subs, slots; // slots - subs of them are spare
    size_t   ahead;       // of the subs, those that may be updated before the norm is known
    uint64_t off, slot_bytes;
};

struct store {
    size_t   n_blocks, n_devices, n_subs, n_classes;
    size_t   last; // the block whose gradient is complete last (route.h)
    int      moments;
    enum dtype wire_dt;
    double   compress;
    size_t   groups;       // whose pairs are added up (pair_sum.h); 1: one gradient's
    int      error_feedback;
    enum run_spares spares;
    const size_t *block_params; // (n_blocks) the configuration's,
    const size_t *whole_params; // and of what they are portions
    size_t  *block_sub;    // (n_blocks + 1): subgroups of block b are [block_sub[b],
                           // block_sub[b+1]), rising by first
    struct store_sub   *subs;
    struct store_class *classes;
    uint64_t *device_bytes; // (n_devices)
    size_t   max_pad;       // the largest n_pad
};

/* By the run's sizes alone, without opening anything. misuse: csd_mem too small. */
int  store_init(struct store *s, const struct run_config *cfg, struct err *err);
void store_release(struct store *s);

/* The most pairs that a block's gradient has here, with compression. */
size_t store_pairs(const struct store *s, size_t block);

static inline uint64_t store_slot_off(const struct store *s, size_t class_, size_t slot)
{
    return s->classes[class_].off + slot * s->classes[class_].slot_bytes;
}

/* Bytes of a subgroup's states (master and moments), and of its wire behind them. */
static inline size_t store_state_bytes(const struct store *s, size_t n_pad)
{
    return (size_t)(1 + s->moments) * 4 * n_pad;
}

static inline size_t store_wire_bytes(const struct store *s, size_t n_pad)
{
    return dtype_bytes(s->wire_dt) * n_pad;
}

/* After `applied` updates area applied % 2 is the committed one: the next update that is not
 * skipped writes the other. */
static inline size_t store_residual_bytes(size_t n_pad) { return sizeof(float) * n_pad; }

/* Of all that a subgroup holds: states, wire, one residual. */
static inline size_t store_sub_bytes(const struct store *s, size_t n_pad)
{
    return store_state_bytes(s, n_pad) + store_wire_bytes(s, n_pad) +
           (s->error_feedback ? store_residual_bytes(n_pad) : 0);
}

static inline uint64_t store_residual_off(const struct store_sub *u, uint64_t applied)
{
    return u->residual_off + applied % 2 * store_residual_bytes(u->n_pad);
}

static inline size_t store_pad(size_t n) { return round_up(n, CSD_ALIGN_PARAMS); }

/* The superblock of a device: who it belongs to. layout: "" for the devices that the run was made
 * with, else a name of each set of devices that it was moved to (reshard.h), so that those it has
 * left do not pass for its own. owner: "", or a word of the folder whose user has named the device
 * last: a copy of a run has its id and layout, and must not take, or remove, what the run has. */
enum { STORE_LAYOUT = 17 };
struct store_super {
    char     id[33], layout[STORE_LAYOUT], owner[STORE_LAYOUT];
    uint32_t device, n_devices;
    uint64_t bytes;
};
void store_super_pack(void *page, const struct store_super *s); // STORE_SUPERBLOCK bytes
// -EBADMSG: damaged, or of another time; -EXDEV: whole, but another device's
int  store_super_check(const void *page, const struct store_super *want, const char *path,
                       struct err *err);
int  store_super_present(const void *page); // whether it is one of ours at all
// 0; -EBADMSG: damaged, or not one of this version
int  store_super_read(const void *page, struct store_super *out);
int  store_super_whole(const void *page); // whether its checksum holds: it says truly whose it is
