/* devices.h: the opened devices of a run: their files found and checked, their links modelled, one
 * bell for all. */
#pragma once

#include "data/base/arena.h"
#include "offload/devices/devices_place.h"
#include "offload/layout/store.h"

struct device {
    struct csd  *csd;
    char        *path;     // of a file or block device
    uint64_t     dev, ino; // what it named when it was opened
};

struct devices {
    struct run_config cfg;     // what it points to is the opener's
    struct store      store;
    struct bell   bell;
    struct topology  *links;
    struct device    *device;  // (n + n_acts)
    size_t            n;       // that hold states
    size_t            n_acts;  // those for activations alone that are open, behind the others
    struct arena     *buffers; // (n_buffers) what jobs point into; the first is registered
    size_t            n_buffers;
    void             *page;    // 4 KiB for superblocks
    int               silent;  // a device gave requests up, and may answer them still; or a rank
};

/* Only TRAIN makes updates; MEND writes what is there already. */
enum devices_how { DEVICES_CREATE, DEVICES_TRAIN, DEVICES_MEND, DEVICES_READ };

/* What some openers want; all of it may be left out. */
struct devices_more {
    /* Says by arena_take what jobs will point into (called twice, data/base/arena.h). It is
     * registered with the devices, and theirs. */
    void      (*lay)(void *ctx, const struct store *st, struct arena *a);
    void       *ctx;
    char       *notice; // gets a sentence where a fall-back was taken
    size_t      notice_size;
    /* (n_devices) for `siTrain check`: a device that cannot be opened, or is not this run's, stays
     * closed (csd NULL), and one whose superblock is damaged stays open; each[i] gets the
     * sentence, or none. One that is in use or may not be read ends it all the same: -EBUSY,
     * -EACCES. */
    struct err *each;
};

/* Activations (act_stack.h) lie on all devices, behind their states, or on drives of their own: on
 * how many, of which the first is which. */
static inline size_t devices_acts(const struct run_config *cfg)
{
    return cfg->n_act_devices ? cfg->n_act_devices : cfg->n_devices;
}
static inline size_t devices_act_first(const struct run_config *cfg)
{
    return cfg->n_act_devices ? cfg->n_devices : 0;
}
/* Bytes that an item of `bytes` takes on each of them. */
size_t devices_act_part(const struct run_config *cfg, size_t bytes);
/* What each of them has room for: whatever the sizes of the items, if they are no
 * more than cfg->acts says, their parts fit into it. */
uint64_t devices_act_area(const struct run_config *cfg);
/* What all devices take of the drives and, emulated, of memory. */
void   devices_memory(const struct run_config *cfg, const struct store *st, struct run_memory *out);

/* Lay out, open, and (unless creating) check the superblocks. more may be NULL. After a failure
 * nothing is open, and what DEVICES_CREATE made is removed. */
int  devices_open(struct devices *d, const struct run_config *cfg, enum devices_how how,
                  const struct devices_more *more, struct err *err);
/* Waits for what is in flight; accepts the zero state. Where a device is silent the buffers stay
 * for ever. */
void devices_close(struct devices *d);

/* One more buffer for jobs, zeroed and aligned to 4 KiB, until devices_buffer_end or devices_close;
 * NULL: out of memory. */
void *devices_buffer(struct devices *d, size_t bytes);
void  devices_buffer_end(struct devices *d, void *buffer); // NULL is fine

/* Whether every path still names what was opened, as large as it must be: what is written to a file
 * that was removed is lost when the process ends, and nothing else would tell. used: what it was
 * used for, and what to do now, for the sentence. */
int devices_present(const struct devices *d, const char *used, struct err *err);

/* Inside the caller's transaction: what run.db says of the devices that hold states. */
int devices_record(const struct devices *d, struct runlog *log, struct err *err);

/* Write device i's superblock anew. */
int devices_super_write(struct devices *d, size_t i, struct err *err);
/* Give all devices the word cfg.owner_next, durably: nobody with another word takes them. */
int devices_take(struct devices *d, struct err *err);

/* Whether nothing is stored behind cfg (the null CSD or the null disk): what is read back means
 * nothing and is not compared. */
int devices_fake(const struct run_config *cfg);

/* Run one job on device i to its end. */
int devices_run(struct devices *d, size_t i, struct csd_job *job, struct err *err);

int devices_flush(struct devices *d, struct err *err); // those that are open

/* Before devices_close: remove the files that DEVICES_CREATE made and that still have their names.
 */
void devices_discard(struct devices *d);
