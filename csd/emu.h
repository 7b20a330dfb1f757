/* emu.h: an emulated device, private to csd_emu.c (its worker, its jobs, what goes to the disk) and
 * emu_update.c (the stages of an update). All of it is the worker's thread alone, but for what
 * stands below `mutex`. */
#ifndef CSD_EMU_H
#define CSD_EMU_H

#include "csd/csd.h"
#include "csd/grad_wire.h"
#include "csd/updater.h"
#include "data/base/clock.h"

enum {
    EMU_ALIGN = 4096,
    SETS = 2,
    HOST_IOS = 48,
    CHUNKS = 4,
    CHUNK_PARAMS = 1 << 18,
    CHUNK_IOS = UPDATE_PARTS + 1,
    DEPTH = 96,
    REAP = 32,
    SLICE_PARAMS = 1 << 16,
    SILENCE_SLICES = 8
};

/* A set's transfers: of a store; of a load, CHUNK_IOS for each chunk on its way, and one for pairs.
 */
enum set_io { IO_STATES, IO_WIRE, IO_PAIRS = CHUNKS * CHUNK_IOS, SET_IOS };

enum set_stage { SET_FREE, SET_LOAD, SET_STORE };

struct io {
    struct disk_req req;
    struct csd_job *job;
    struct set     *set; // NULL: a host job's
    enum link_class cls;
    size_t          payload;
    int             at_disk; // the disk has it
    uint64_t        over_ns; // not before
    struct io      *next;    // free, or delayed
};

struct set {
    enum set_stage          stage;
    struct csd_job         *job;
    uint64_t                turn; // order of jobs
    void                   *mem;
    size_t                  bytes;
    struct update_area      area;
    unsigned                flying; // its transfers
    size_t                  asked, ready, at; // parameters asked for, there, computed
    unsigned                chunk_flying[CHUNKS];
    struct update_sums      sums;
    size_t                  grad_read; // bytes of a compressed gradient asked for
    struct grad_wire_reader reader;
    struct io               io[SET_IOS];
};

struct emu {
    struct csd        base;
    struct csd_config cfg;
    char             *path;
    struct disk      *disk;
    int               fake; // nothing is stored: nothing to compare
    size_t            arena_now, arena_peak;
    int               n_sets, broken; // broken: -errno of a disk that can no longer be used
    unsigned          n_at_disk;
    // signs of life: the last count; when it was taken; none for so long
    uint64_t          moved, listened_ns, silent_ns;
    uint64_t          turns;
    struct set        sets[SETS];
    struct io         host_io[HOST_IOS];
    struct io        *free_io, *delayed;
    struct csd_list   host_jobs, updates; // taken from the inbox, not started

    pthread_t       thread;
    int             started;
    pthread_mutex_t mutex; // over what follows
    struct csd_list inbox, outbox;
    int             stop;
};

/* csd_emu.c */

/* The first failure of a job is the one it reports. */
void emu_job_fail(const struct emu *e, struct csd_job *job, int rc, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void emu_job_finish(struct emu *e, struct csd_job *job);
/* Start io, whose job, class and payload are set. A disk that refuses it is a transfer that failed.
 */
void emu_io_start(struct emu *e, struct io *io, enum disk_op op, void *buf, size_t bytes,
                  uint64_t off);
void emu_io_account(struct emu *e, struct io *io); // one that is over, into its job's accounts

static inline int emu_in_range(const struct emu *e, uint64_t off, uint64_t bytes)
{
    return off <= e->cfg.bytes && bytes <= e->cfg.bytes - off;
}

static inline void emu_span_begin(struct csd_job *job, enum csd_span s)
{
    if (job->start_ns[s] == 0)
        job->start_ns[s] = clock_ns();
}

static inline void emu_span_end(struct csd_job *job, enum csd_span s)
{
    job->end_ns[s] = clock_ns();
}

/* emu_update.c */

int  emu_set_allocate(struct emu *e, struct set *s, size_t bytes); // 0 or -ENOMEM
void emu_set_deallocate(struct emu *e, struct set *s);
void emu_set_finish(struct emu *e, struct set *s); // its job is done, or has failed
void emu_update_start(struct emu *e, struct set *s, struct csd_job *job); // s is free
void emu_set_io_done(struct emu *e, struct io *io);
int  emu_set_work(struct emu *e); // a slice of work for the oldest set that has any; whether there
                                  // was one

#endif
