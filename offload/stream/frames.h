/* frames.h: the buffers for parameters on their way from devices to the model. They are read ahead
 * along the pass's route (route.h), not far ahead of the model. A subgroup is read as soon as its
 * update has written its parameters (subs.h: wire).
 *
 *     a frame is
 *     free       without users and unread parameters. The next use of the pass that needs it may
 *                take it; it may already hold that use's block
 *     filling    unasked > 0: subgroups wait for their update; unread > 0: reads are under way. A
 *                block in place (base_reader.h) waits for no update
 *     gathering  unread 0, with several ranks (ranks.h): this rank's portion goes to all others,
 *                and theirs come, block by block in the order of the pass
 *     whole      lent by frames_acquire, for each use of the pass until another block needs the
 *                frame; each use ends with frames_release
 *
 * Calls are the scheduler's thread's with the lock held, unless they say otherwise. */
#pragma once

#include "comm/comm.h"
#include "offload/devices/scheduler.h"
#include "offload/layout/route.h"
#include "offload/stream/base_reader.h"
#include "offload/stream/subs.h"

/* Subgroups [next, end) of a block on one device, whose reads are not yet submitted. */
struct shard_read { size_t next, end; };

struct frame {
    void              *wire;
    size_t             block;   // in it, or on its way into it; SIZE_MAX: none
    uint64_t           version; // of the parameters: that of the pass
    size_t             unread;  // subgroups still to be read; of a block in place 1, its portion
    size_t             unasked; // of these, subgroups whose read is not submitted
    struct shard_read *shards;  // (n devices)
    unsigned           users;   // uses of this pass that have it and have not released it
    int                partial; // true until other ranks' portions have come
    struct base_request base;   // of a block in place
    struct comm_request gather;
    uint64_t           since;   // clock_ns of the gather's beginning
};

struct frames {
    struct scheduler   *sched;
    const struct subs *subs;
    struct base_reader *base;        // NULL: no block is in place, or none is read
    enum stream_pass   pass;
    uint64_t           version;      // of all parameters that the pass reads
    size_t             n_uses, next_read, next_acquire;
    size_t             unread_bytes; // of all frames
    struct frame      *frames;       // (n_frames) numbered as in route.h
    size_t             n_frames;
    struct shard_read *shards;       // (n_frames, n devices) memory of frame.shards
    struct task       *reads;        // (n_subs)
    struct frame     **partial;      // (n_partial) partial frames, in the order of the pass
    size_t             n_partial, gathering; // the first `gathering` of them are under way
    size_t            *at;           // (ranks + 1) where portions begin in a frame, in bytes
};

/* Take tables, and buffers, from an arena (called twice, data/base/arena.h). frames_bytes: of one
 * frame for these blocks. */
void   frames_tables(struct frames *f, const struct store *st, struct arena *a);
void   frames_lay(struct frames *f, const struct store *st, struct arena *a);
size_t frames_bytes(const struct run_config *cfg, struct route_span of);

/* Open and close the reader of blocks in place, if there are any (base_reader.h). While it reads,
 * frames_advance is called at least every frames_rest_ns. */
int      frames_open(struct frames *f, struct err *err);
int      frames_close(struct frames *f);
uint64_t frames_rest_ns(const struct frames *f);
/* Begin a pass that reads everything at `version`. */
void frames_begin(struct frames *f, enum stream_pass pass, uint64_t version);
/* The model's thread. acquire takes the lock and waits; release is called with the lock held. */
int  frames_acquire(struct frames *f, size_t block, const void **wire, struct err *err);
void frames_release(struct frames *f, size_t block);
/* Give up gathers under way; returns as comm_give_up. */
int  frames_give_up(struct frames *f);
/* Submit all reads and gathers that are possible. 1 if there were any, 0, or -errno. */
int  frames_advance(struct frames *f, struct err *err);
