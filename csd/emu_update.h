/* emu_update.h: the updates of an emulated device.
 *
 * States of a set of buffers, which holds one update at a time:
 *
 *     FREE     no job
 *     LOAD     states and gradient come in, in chunks (a compressed gradient through the area of
 *              the wire); of what is there from the first on, optimizer, wire parameters and the
 *              checksums of what came and of what goes are computed in one pass over memory
 *     STORE    states and wire go out, if what came was right
 *
 * With two sets one loads while the other stores. cfg->naive is the same with a single set, mapped
 * and unmapped by each job, that computes nothing before all is there: each stage ends before the
 * next begins. What is computed is computed a slice at a time: between two slices the worker serves
 * the disk. All of it is the worker's thread, but for arena_peak.
 *
 * The worker starts jobs and hands in transfers that are over; jobs that are done, or have failed,
 * are in `finished`, for it to take. */
#ifndef CSD_EMU_UPDATE_H
#define CSD_EMU_UPDATE_H

#include "csd/emu_io.h"
#include "csd/grad_wire.h"
#include "csd/updater.h"
#include "data/base/arena.h"

enum { EMU_SETS = 2, EMU_CHUNKS = 4, EMU_CHUNK_IOS = UPDATE_PARTS + 1 };

/* A set's transfers: of a store; of a load, EMU_CHUNK_IOS for each chunk on its way, and one for
 * pairs. */
enum { IO_STATES, IO_WIRE, IO_PAIRS = EMU_CHUNKS * EMU_CHUNK_IOS, SET_IOS };

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

struct emu_updates {
    const struct csd_config *cfg;
    struct emu_port         *port;
    int                      n_sets;
    struct emu_set           sets[EMU_SETS];
    size_t                   arena_now, arena_peak; // peak: read by the owner, atomically
    uint64_t                 turns;
    struct list              finished;
};

/* Maps the sets of the modes that keep them; emu_updates_release also after a failure. */
int  emu_updates_init(struct emu_updates *e, struct emu_port *port, const struct csd_config *cfg,
                      struct err *err);
void emu_updates_release(struct emu_updates *e);

/* How many sets are not free; a job is started where it is less than n_sets. */
int  emu_updates_running(const struct emu_updates *e);
void emu_update_start(struct emu_updates *e, struct csd_job *job);
void emu_update_io_over(struct emu_updates *e, struct emu_io *io);
/* A slice of work for the oldest set that has any; whether there was one. */
int  emu_update_work(struct emu_updates *e);
/* The disk broke: all updates fail with rc. */
void emu_updates_break(struct emu_updates *e, int rc);

#endif
