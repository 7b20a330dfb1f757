/* worker.h: a device that computes beside its drive: a thread with a disk of its own, an engine
 * (engine.h), and the jobs between the owner and both. worker.c is the thread and csd_ops's calls,
 * worker_io.c its transfers, worker_update.c its updates. Everything belongs to the worker's
 * thread, except for the calls that worker.c lists.
 *
 * A transfer goes between the disk and the memory of the host or the engine. It is free (no job);
 * at the disk; delayed, after the disk is done with it or has refused it, until the modelled links
 * would be done; over, when worker_io_over returns it to its starter.
 *
 * A set of buffers holds one update at a time:
 *
 *     FREE     without a job
 *     LOAD     states and gradient are read, in chunks (a compressed gradient into the area of the
 *              wire). On what has come, from the first parameter on, the engine computes optimizer,
 *              wire parameters and the checksums of input and output, in one pass over memory
 *     PARAMS   wire and master are written, if the input was right. When the wire is written the
 *              CSD_AHEAD job is complete
 *     MOMENTS  moments are written
 *
 * With two sets one loads while the other stores: CSD_HANDED_OVER. CSD_NAIVE has a single set,
 * which each job allocates and frees. Each of its stages ends before the next begins: everything is
 * read, then computed, then written at once. An engine that takes slices computes one slice at a
 * time, and the worker serves the disk between two slices. */
#pragma once

#include "csd/devices/csd_common.h"
#include "csd/engine/engine.h"
#include "data/base/list.h"
#include "data/base/thread.h"

enum { WORKER_SETS = 2, WORKER_CHUNKS = 4, WORKER_CHUNK_IOS = UPDATE_PARTS + 1, HOST_IOS = 48 };

/* A set's transfers: three of a store; of a load, WORKER_CHUNK_IOS for each chunk on its way, and
 * one for pairs. */
enum { IO_WIRE, IO_MASTER, IO_MOMENTS, IO_PAIRS = WORKER_CHUNKS * WORKER_CHUNK_IOS, SET_IOS };

struct worker_io {
    struct disk_req req;     // the starter sets op, buf, bytes and off
    struct csd_job *job;     // NULL: free
    struct worker_set *set;  // of the update; NULL: a job of the host
    enum link_class cls;
    size_t          payload;
    int             at_disk;
    uint64_t        over_ns; // clock_ns before which it is not over
    struct worker_io *next;
};

struct worker_set {
    enum { SET_FREE, SET_LOAD, SET_PARAMS, SET_MOMENTS } stage;
    struct csd_job         *job;
    uint64_t                sequence; // number of its job, in the order of starts
    struct engine_set       mem;      // memory, area, sums, reader
    unsigned                under_way[CSD_SPANS]; // reads, writes; the engine's work: 0 or 1
    uint64_t                since_ns[CSD_SPANS];  // when under_way became more than 0
    size_t                  asked, ready, computed; // so many parameters, from the first on
    unsigned                chunk_flying[WORKER_CHUNKS]; // transfers of each chunk
    // of a compressed gradient: bytes asked for; come and not scattered; scattered
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
    // signs of life: disk_moved at the last look; when that was; how long it has not changed
    uint64_t          moved, listened_ns, silent_ns;
    // updates
    struct engine    *engine;
    int               n_sets;
    struct worker_set sets[WORKER_SETS];
    uint64_t          n_started;

    struct thread     thread;
    struct list       inbox, outbox; // under the thread's lock
};

/* Start io; the caller has set all members but at_disk and over_ns. If the disk refuses it, the
 * transfer has failed. */
void worker_io_start(struct worker *w, struct worker_io *io);
/* Wait up to wait_ns (-1: for ever) for the disk, or until disk_wake. Sets `broken` if the disk
 * broke; starters then fail all their transfers. -ETIMEDOUT there: it was silent for
 * cfg.timeout_ns. */
void worker_io_serve(struct worker *w, int64_t wait_ns);
/* The next transfer that is over by now, or NULL. Its starter then calls worker_io_account. */
struct worker_io *worker_io_over(struct worker *w);
/* Nanoseconds until worker_io_over has one; -1 if no transfer is delayed. */
int64_t worker_io_wait(const struct worker *w);
/* Add a transfer that is over, or whose disk broke, to its job's meter and status. */
void worker_io_account(const struct worker *w, struct worker_io *io);

/* Fail a job because the disk broke, or the engine. */
void worker_job_broken(const struct worker *w, struct csd_job *job);

/* init allocates the sets, if the handler keeps them. release also follows a failure. */
int  worker_updates_init(struct worker *w, struct err *err);
void worker_updates_release(struct worker *w);
/* The number of sets that are not free. A job may start if it is less than n_sets. */
int  worker_updates_running(const struct worker *w);
void worker_update_start(struct worker *w, struct csd_job *job);
void worker_update_io_over(struct worker *w, struct worker_io *io);
/* Take the set that the engine has done, and give it the next work of the oldest set that has any.
 * True if a set was done. */
int  worker_update_work(struct worker *w);
/* Fail all updates, because the disk broke. */
void worker_updates_break(struct worker *w);

/* ---- csd_ops of kinds with a worker: the owner's thread */

size_t worker_memory(const struct csd_config *cfg);
int    worker_open(struct csd **out, const struct csd_ops *ops, const struct engine_ops *engine,
                   const struct csd_config *cfg, char *notice, size_t notice_size,
                   struct err *err);
void   worker_submit(struct csd *c, struct csd_job *job);
int    worker_reap(struct csd *c, struct csd_job **done, int max);
int    worker_close(struct csd *c);
