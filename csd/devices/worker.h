/* worker.h: what every device that computes beside its drive has in common: a thread with a disk
 * of its own, an engine (engine.h), the jobs between the owner and both. worker.c is the thread and
 * the calls, worker_io.c its transfers, worker_update.c its updates. But for what worker.c says,
 * all of it is the worker's thread.
 *
 * States of a transfer, between the disk and the host's memory or the engine's: free (no job); at
 * the disk; delayed, once the disk is done with it or has refused it, until the modelled links
 * would be; over, when worker_io_over hands it back to whoever started it.
 *
 * States of a set of buffers, which holds one update at a time:
 *
 *     FREE     no job
 *     LOAD     states and gradient come in, in chunks (a compressed gradient through the area of
 *              the wire); of what is there from the first on, the engine makes optimizer, wire
 *              parameters and the checksums of what came and of what goes in one pass over memory
 *     PARAMS   wire and master go out, if what came was right; the wire is over: so is the job
 *              ahead of the update
 *     MOMENTS  the moments go out
 *
 * With two sets one loads while the other stores: CSD_HANDED_OVER. CSD_NAIVE is the same with a
 * single set, allocated and freed by each job, on which nothing is computed before all is there:
 * each stage ends before the next begins, and everything goes out at once. What is computed is
 * computed a slice at a time where the engine takes slices: between two slices the worker serves
 * the disk. */
#pragma once

#include "csd/devices/csd_common.h"
#include "csd/engine/engine.h"
#include "data/base/list.h"

#include <pthread.h>

enum { WORKER_SETS = 2, WORKER_CHUNKS = 4, WORKER_CHUNK_IOS = UPDATE_PARTS + 1, HOST_IOS = 48 };

/* A set's transfers: of a store; of a load, WORKER_CHUNK_IOS for each chunk on its way, and one for
 * pairs. */
enum { IO_WIRE, IO_MASTER, IO_MOMENTS, IO_PAIRS = WORKER_CHUNKS * WORKER_CHUNK_IOS, SET_IOS };

struct worker_io {
    struct disk_req req;     // op, buf, bytes and off are the starter's
    struct csd_job *job;     // NULL: free
    struct worker_set *set;  // the update's; NULL: a host job's
    enum link_class cls;
    size_t          payload;
    int             at_disk;
    uint64_t        over_ns; // not before
    struct worker_io *next;
};

struct worker_set {
    enum { SET_FREE, SET_LOAD, SET_PARAMS, SET_MOMENTS } stage;
    struct csd_job         *job;
    uint64_t                sequence; // order of jobs
    struct engine_set       mem;    // memory, area, sums, reader
    unsigned                under_way[CSD_SPANS]; // reads and writes; the engine's work: 0 or 1
    uint64_t                since_ns[CSD_SPANS];  // from when there was one
    size_t                  asked, ready, computed; // parameters, from the first on
    unsigned                chunk_flying[WORKER_CHUNKS];
    // of a compressed gradient: bytes asked for; there and not scattered; scattered
    size_t                  grad_asked, grad_here, scattered;
    struct worker_io        io[SET_IOS];
};

struct worker {
    struct csd        base;
    struct csd_config cfg;
    struct list       host_waiting, updates_waiting; // taken from the inbox, not started
    struct list       finished;                      // not yet in the outbox
    struct worker_io  host_io[HOST_IOS];
    // transfers
    struct disk      *disk;
    struct list       delayed;
    unsigned          n_at_disk;
    int               broken; // -errno of a disk that can no longer be used
    // signs of life: the last count; when it was taken; none for so long
    uint64_t          moved, listened_ns, silent_ns;
    // updates
    struct engine    *engine;
    int               n_sets;
    struct worker_set sets[WORKER_SETS];
    uint64_t          n_started;

    pthread_t         thread;
    int               started;
    pthread_mutex_t   mutex; // over what follows
    struct list       inbox, outbox;
    int               stop;
};

/* Start io, all but at_disk and over_ns of which is set. A disk that refuses it is a transfer that
 * failed. */
void worker_io_start(struct worker *w, struct worker_io *io);
/* Wait up to wait_ns (-1: for ever) for the disk, or until disk_wake. `broken` is set where it
 * broke now: whoever started transfers fails them all. -ETIMEDOUT: it was silent for
 * cfg.timeout_ns. */
void worker_io_serve(struct worker *w, int64_t wait_ns);
/* The next transfer that is over by now, or NULL. Its starter calls worker_io_account. */
struct worker_io *worker_io_over(struct worker *w);
/* Nanoseconds until there is one; -1 if none is delayed. */
int64_t worker_io_wait(const struct worker *w);
/* Enter one that is over, or whose disk broke, into its job's accounts. */
void worker_io_account(const struct worker *w, struct worker_io *io);

/* Fail a job because the disk broke, or the engine. */
void worker_job_broken(const struct worker *w, struct csd_job *job);

/* Allocates the sets of the handler that keeps them; worker_updates_release is for after a failure,
 * too. */
int  worker_updates_init(struct worker *w, struct err *err);
void worker_updates_release(struct worker *w);
/* How many sets are not free; a job is started where it is less than n_sets. */
int  worker_updates_running(const struct worker *w);
void worker_update_start(struct worker *w, struct csd_job *job);
void worker_update_io_over(struct worker *w, struct worker_io *io);
/* Take what the engine is done with, and give it the next work of the oldest set that has any;
 * whether there was something to take. */
int  worker_update_work(struct worker *w);
/* The disk broke: all updates fail. */
void worker_updates_break(struct worker *w);

/* ---- csd_ops of the devices that have a worker */

size_t worker_memory(const struct csd_config *cfg);
int    worker_open(struct csd **out, const struct csd_ops *ops, const struct engine_ops *engine,
                   const struct csd_config *cfg, char *notice, size_t notice_size,
                   struct err *err);
void   worker_submit(struct csd *c, struct csd_job *job);
int    worker_reap(struct csd *c, struct csd_job **done, int max);
int    worker_close(struct csd *c);
