/* store.h: where everything lies on the devices: blocks -> shards -> subgroups -> slots and
 * gradient areas. Pure arithmetic from a run's settings. The result is fixed when the run is made.
 *
 * A device is [superblock | slots of each size class | a gradient area for each subgroup]. With
 * error feedback two areas for the subgroup's residual follow its gradient area. Every part starts
 * at a multiple of 4 KiB. A subgroup starts at a multiple of CSD_ALIGN_PARAMS parameters of its
 * block.
 *
 * A subgroup of a frozen block (route.h) has one slot, for good. The slot holds the wire parameters
 * alone. It has no spare slots, no gradient area and no residual areas. A block in place has no
 * subgroups. */
#pragma once

#include "data/base/round.h"
#include "offload/layout/config.h"
#include "offload/layout/superblock.h"

enum { STORE_MIN_SPARES = 4, STORE_FEW_SPARES = 2 };
enum { STORE_MAX_SUBGROUP = 4 << 20, STORE_MAX_SUBGROUPS = 1 << 22 }; // parameters; subgroups

struct store_sub {
    size_t   block, device;
    int      trains;          // 0: its block is frozen
    int      packed;          // its elements are bit patterns (run_packed)
    size_t   first, n, n_pad; // parameters [first, first + n) of its block
    size_t   class_;          // of its slots, in store.classes
    uint32_t first_slot;      // the slot that it is made in
    uint64_t grad_off;        // of its gradient area
    size_t   grad_bytes;      // of that area
    uint64_t residual_off;    // of its two residual areas, store_residual_bytes each
};

/* Slots of one size on one device, of trained subgroups or of frozen ones. */
struct store_class {
    size_t   device, n_pad;
    int      trains;
    size_t   subs, slots; // subgroups, and slots; the difference is spare
    size_t   ahead;       // subgroups that may be updated before the norm is known
    uint64_t off, slot_bytes;
};

struct store {
    size_t   n_blocks, n_devices, n_subs, n_classes;
    size_t   n_trained;    // subgroups that are not frozen
    struct route_span packed; // blocks (run_packed)
    size_t   last;         // the block whose gradient is complete last (route.h)
    int      moments;
    enum dtype wire_dt;
    double   compress;
    size_t   groups;       // with compression, groups whose pairs are added up (pair_sum.h)
    int      error_feedback;
    enum run_spares spares;
    const size_t *block_params; // (n_blocks) the configuration's
    const size_t *whole_params; // (n_blocks) of the whole blocks, of all ranks
    size_t  *block_sub;    // (n_blocks + 1) subgroups of block b are [block_sub[b],
                           // block_sub[b+1]), in rising order of `first`
    struct store_sub   *subs;    // (n_subs)
    struct store_class *classes; // (n_classes)
    uint64_t *device_bytes; // (n_devices)
    size_t   max_pad;       // the largest n_pad; if there is no subgroup, the smallest possible
    size_t   update_pad;    // the largest n_pad of a trained subgroup
};

/* Computes the layout from the run's sizes; opens nothing. 0 or -errno; csd_mem that is too small
 * is misuse. store_release frees all, and accepts the zero state. */
int  store_init(struct store *s, const struct run_config *cfg, struct err *err);
void store_release(struct store *s);

/* The most pairs that a block's compressed gradient has on this rank's devices. */
size_t store_pairs(const struct store *s, size_t block);

static inline uint64_t store_slot_off(const struct store *s, size_t class_, size_t slot)
{
    return s->classes[class_].off + slot * s->classes[class_].slot_bytes;
}

/* Bytes in a slot: states (master and moments), and the wire parameters behind them. Of a subgroup
 * of n_pad parameters that is trained; store_states_of is of any subgroup. */
static inline size_t store_state_bytes(const struct store *s, size_t n_pad)
{
    return (size_t)(1 + s->moments) * 4 * n_pad;
}

static inline size_t store_wire_bytes(const struct store *s, size_t n_pad)
{
    return dtype_bytes(s->wire_dt) * n_pad;
}

/* Bytes of a residual area. After `applied` updates, area applied % 2 is the committed one. The
 * next update that is not skipped writes the other. */
static inline size_t store_residual_bytes(size_t n_pad) { return sizeof(float) * n_pad; }

static inline size_t store_states_of(const struct store *s, const struct store_sub *u)
{
    return u->trains ? store_state_bytes(s, u->n_pad) : 0;
}

/* Memory for a subgroup on its way: states, wire and, with error feedback, one residual. */
static inline size_t store_sub_bytes(const struct store *s, size_t n_pad)
{
    return store_state_bytes(s, n_pad) + store_wire_bytes(s, n_pad) +
           (s->error_feedback ? store_residual_bytes(n_pad) : 0);
}

/* Bytes of these on the devices. */
static inline size_t store_sub_held(const struct store *s, const struct store_sub *u)
{
    return u->trains ? store_sub_bytes(s, u->n_pad) : store_wire_bytes(s, u->n_pad);
}

static inline uint64_t store_residual_off(const struct store_sub *u, uint64_t applied)
{
    return u->residual_off + applied % 2 * store_residual_bytes(u->n_pad);
}

static inline size_t store_pad(size_t n) { return round_up(n, CSD_ALIGN_PARAMS); }
