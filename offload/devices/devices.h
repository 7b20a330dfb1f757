/* devices.h: the opened devices of a run: their files are found and checked, their links modelled,
 * and all share one bell. One thread uses them. */
#pragma once

#include "data/base/arena.h"
#include "offload/devices/devices_place.h"
#include "offload/layout/store.h"

struct device {
    struct csd  *csd;
    char        *path;     // of its file or block device
    uint64_t     dev, ino; // of the file, when it was opened
    unsigned     tasks;    // of the scheduler (scheduler.h) that are submitted and not reaped
    int          made;     // the file is new; or this process has written the drive's superblock
};

struct devices {
    struct run_config cfg;     // a copy; what it points to is the opener's
    struct store      store;
    struct bell   bell;
    struct topology  *links;
    struct device    *device;  // (n + n_acts)
    size_t            n;       // devices that hold states
    size_t            n_acts;  // open drives for activations alone, numbered after the others
    struct arena     *buffers; // (n_buffers) memory that jobs point into; the first is registered
    size_t            n_buffers;
    void             *page;    // 4 KiB, for superblocks
    int               silent;  // a device or rank may still write to buffers after it was given up
};

/* CREATE makes new devices; TRAIN reads, writes and updates; MEND writes again what should be
 * there; REMAKE is MEND that first makes those that are gone, and gives those that were cut their
 * length; READ only reads. */
enum devices_how { DEVICES_CREATE, DEVICES_TRAIN, DEVICES_MEND, DEVICES_REMAKE, DEVICES_READ };

/* Optional arguments of devices_open; each may be zero. */
struct devices_more {
    /* Takes from `a` the memory that jobs will point into (called twice, as data/base/arena.h has
     * it). The memory is registered with the devices and is theirs. */
    void      (*lay)(void *ctx, const struct store *st, struct arena *a);
    void       *ctx;
    char       *notice; // gets a sentence if a fall-back was taken
    size_t      notice_size;
    /* (n_devices) for `siTrain check`: each[i] gets the sentence of device i's failure, or none. A
     * device that cannot be opened or is not this run's stays closed (csd NULL); a device with a
     * damaged superblock stays open. Only a device that is in use or not readable fails the call:
     * -EBUSY, -EACCES. */
    struct err *each;
};

/* Activations (act_stack.h) lie on all devices, behind their states, or on separate drives: how
 * many devices hold them, and the number of the first. */
static inline size_t devices_acts(const struct run_config *cfg)
{
    return cfg->n_act_devices ? cfg->n_act_devices : cfg->n_devices;
}
static inline size_t devices_act_first(const struct run_config *cfg)
{
    return cfg->n_act_devices ? cfg->n_devices : 0;
}
/* Bytes that an item of `bytes` takes on each of these devices. */
size_t devices_act_part(const struct run_config *cfg, size_t bytes);
/* Bytes of each of these devices' area for activations: enough for any items within cfg->acts. */
uint64_t devices_act_area(const struct run_config *cfg);
/* Sets out->device_bytes, which all devices take of drives, and out->arenas, which emulated devices
 * take of memory. */
void   devices_memory(const struct run_config *cfg, const struct store *st, struct run_memory *out);

/* Compute the layout, open every device, and check its superblock (or write it: CREATE). more may
 * be NULL. 0 or -errno; after a failure nothing is open, and files that it made are removed. */
int  devices_open(struct devices *d, const struct run_config *cfg, enum devices_how how,
                  const struct devices_more *more, struct err *err);
/* Waits for jobs in flight; accepts the zero state. If a device is silent, the buffers are never
 * freed. */
void devices_close(struct devices *d);

/* One more buffer for jobs, zeroed and aligned to 4 KiB; NULL: out of memory. devices_buffer_end or
 * devices_close frees it. */
void *devices_buffer(struct devices *d, size_t bytes);
void  devices_buffer_end(struct devices *d, void *buffer); // NULL is fine

/* 0 if every path still names the opened file, and the file has its size; otherwise -errno. Data
 * written to a removed file is lost when the process ends, and nothing else would tell. used: the
 * use of the devices and the user's next step, for the sentence. */
int devices_present(const struct devices *d, const char *used, struct err *err);

/* Inside the caller's transaction: write run.db's rows of the devices that hold states. */
int devices_record(const struct devices *d, struct runlog *log, struct err *err);

/* Write device i's superblock again, and wait for it. */
int devices_super_write(struct devices *d, size_t i, struct err *err);
/* Give all devices the word cfg.owner_next, durably: nobody with another word takes them. */
int devices_take(struct devices *d, struct err *err);

/* True if nothing is stored (the null CSD or the null disk). What is read back then means nothing
 * and is not compared. */
int devices_fake(const struct run_config *cfg);

/* Run one job on device i, and wait for its end. */
int devices_run(struct devices *d, size_t i, struct csd_job *job, struct err *err);

int devices_flush(struct devices *d, struct err *err); // all open devices; waits

/* Before devices_close: remove the files that devices_open made, if they still have their names,
 * and clear the superblocks that it has written to drives. */
void devices_discard(struct devices *d);
/* Removes the folder RUN/devN of device i, if it is empty. */
void devices_folder_remove(const struct run_config *cfg, size_t i);
