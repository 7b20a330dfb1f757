/* emu.h: the parts of an emulated device, which csd_emu.c puts together: its transfers (emu_io.c)
 * and its updates (emu_update.c). But for what csd_emu.c says, all of it is the worker's thread.
 *
 * States of a transfer, between the disk and the host's memory or the device's own: free (no job);
 * at the disk; delayed, once the disk is done with it or has refused it, until the modelled links
 * would be; over, when emu_io_over hands it back to whoever started it.
 *
 * States of a set of buffers, which holds one update at a time:
 *
 *     FREE     no job
 *     LOAD     states and gradient come in, in chunks (a compressed gradient through the area of
 *              the wire); of what is there from the first on, optimizer, wire parameters and the
 *              checksums of what came and of what goes are computed in one pass over memory
 *     STORE    states and wire go out, if what came was right
 *
 * With two sets one loads while the other stores. cfg.naive is the same with a single set, mapped
 * and unmapped by each job, that computes nothing before all is there: each stage ends before the
 * next begins. What is computed is computed a slice at a time: between two slices the worker serves
 * the disk. */
#pragma once

#include "csd/csd_common.h"
#include "csd/grad_wire.h"
#include "data/base/arena.h"
#include "data/base/list.h"

#include <pthread.h>

enum { EMU_SETS = 2, EMU_CHUNKS = 4, EMU_CHUNK_IOS = UPDATE_PARTS + 1, HOST_IOS = 48 };

/* A set's transfers: of a store; of a load, EMU_CHUNK_IOS for each chunk on its way, and one for
 * pairs. */
enum { IO_STATES, IO_WIRE, IO_PAIRS = EMU_CHUNKS * EMU_CHUNK_IOS, SET_IOS };

struct emu_io {
    struct disk_req req;     // op, buf, bytes and off are the starter's
    struct csd_job *job;     // NULL: free
    struct emu_set *set;     // the update's; NULL: a host job's
    enum link_class cls;
    size_t          payload;
    int             at_disk;
    uint64_t        over_ns; // not before
    struct emu_io  *next;
};

struct emu_set {
    enum { SET_FREE, SET_LOAD, SET_STORE } stage;
    struct csd_job         *job;
    uint64_t                turn; // order of jobs
    struct arena            mem;
    struct update_area      area;
    unsigned                flying; // its transfers
    size_t                  asked, ready, at; // parameters asked for, there, computed
    unsigned                chunk_flying[EMU_CHUNKS];
    struct update_sums      sums;
    size_t                  grad_read; // bytes of a compressed gradient asked for
    struct grad_wire_reader reader;
    struct emu_io           io[SET_IOS];
};

struct emu {
    struct csd        base;
    struct csd_config cfg;
    struct list       host_waiting, updates_waiting; // taken from the inbox, not started
    struct list       finished;                      // not yet in the outbox
    struct emu_io     host_io[HOST_IOS];
    // transfers
    struct disk      *disk;
    struct list       delayed;
    unsigned          n_at_disk;
    int               broken; // -errno of a disk that can no longer be used
    // signs of life: the last count; when it was taken; none for so long
    uint64_t          moved, listened_ns, silent_ns;
    // updates
    int               n_sets;
    struct emu_set    sets[EMU_SETS];
    uint64_t          turns;

    pthread_t         thread;
    int               started;
    pthread_mutex_t   mutex; // over what follows
    struct list       inbox, outbox;
    int               stop;
};

/* Start io, all but at_disk and over_ns of which is set. A disk that refuses it is a transfer that
 * failed. */
void emu_io_start(struct emu *e, struct emu_io *io);
/* Wait up to wait_ns (-1: for ever) for the disk, or until disk_wake. 0, or -errno where it broke
 * now: whoever started transfers fails them all. -ETIMEDOUT: it was silent for cfg.timeout_ns. */
int emu_io_serve(struct emu *e, int64_t wait_ns);
/* The next transfer that is over by now, or NULL. Its starter calls emu_io_account. */
struct emu_io *emu_io_over(struct emu *e);
/* Nanoseconds until there is one; -1 if none is delayed. */
int64_t emu_io_wait(const struct emu *e);
/* Enter one that is over, or whose disk broke, into its job's accounts. */
void emu_io_account(const struct emu *e, struct emu_io *io);

/* Maps the sets of the modes that keep them; emu_updates_release also after a failure. */
int  emu_updates_init(struct emu *e, struct err *err);
void emu_updates_release(struct emu *e);
/* How many sets are not free; a job is started where it is less than n_sets. */
int  emu_updates_running(const struct emu *e);
void emu_update_start(struct emu *e, struct csd_job *job);
void emu_update_io_over(struct emu *e, struct emu_io *io);
/* A slice of work for the oldest set that has any; whether there was one. */
int  emu_update_work(struct emu *e);
/* The disk broke: all updates fail with rc. */
void emu_updates_break(struct emu *e, int rc);
