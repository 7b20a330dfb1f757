/* frames.h: the buffers that parameters stream through, on their way from the devices to the model:
 * read ahead along the order of the pass (route.h), a subgroup as soon as its update's parameters
 * are there (subs.h: wire), not far ahead of the model.
 *
 *     a frame    is
 *     free       no users, nothing unread: the next use of the pass that is for it may take it;
 *                what it holds may be that use's already
 *     filling    unasked > 0: subgroups wait for their update; unread > 0: reads are out
 *     gathering  unread 0, where there are other ranks (ranks.h): what this one has goes to all of
 *                them, and theirs comes, block by block in the order of the pass
 *     whole      frames_acquire lends it, as often as the pass uses it before another block needs
 *                it (users), until frames_release
 */
#pragma once

#include "comm/comm.h"
#include "offload/devices/scheduler.h"
#include "offload/layout/route.h"
#include "offload/stream/subs.h"

/* Subgroups [next, end) of a block, one device's, are not yet submitted. */
struct shard_read { size_t next, end; };

struct frame {
    void              *wire;
    size_t             block;   // whose parameters it holds or is getting; SIZE_MAX: none
    uint64_t           version; // that of the pass
    size_t             unread;  // subgroups still to be read
    size_t             unasked; // of them not submitted yet
    struct shard_read *shards;  // (n devices)
    unsigned           users;   // uses in this pass that have been given it and not released it
    int                partial; // other ranks' portions are not there yet
    struct comm_request gather;
    uint64_t           since;   // when its gather began, clock_ns
};

struct frames {
    struct scheduler        *sched;
    const struct subs *subs;
    enum stream_pass   pass;
    uint64_t           version;      // of all parameters that the pass reads
    size_t             n_uses, next_read, next_acquire;
    size_t             unread_bytes; // of all frames
    struct frame      *frames;       // (n_frames), as route.h has them
    size_t             n_frames;
    struct shard_read *shards;       // backing of all of theirs
    struct task       *reads;        // (n_subs)
    struct frame     **partial;      // (n_frames) those that are partial, in the order of the pass
    size_t             n_partial, gathering; // the first `gathering` of them are under way
    size_t            *at;           // (ranks + 1) bytes in a frame where portions begin
};

void   frames_tables(struct frames *f, const struct store *st, struct arena *a);
void   frames_lay(struct frames *f, const struct store *st, struct arena *a); // the buffers
size_t frames_bytes(const struct run_config *cfg, struct route_span of); // of these blocks

/* The next pass, which reads everything at `version`. */
void frames_begin(struct frames *f, enum stream_pass pass, uint64_t version);
/* The model's; waits, and takes the lock. */
int  frames_acquire(struct frames *f, size_t block, const void **wire, struct err *err);
void frames_release(struct frames *f, size_t block);
/* Gathers that are under way are given up; 0 as comm_give_up. */
int  frames_give_up(struct frames *f);
/* Whatever can be read or gathered is asked for; whether there was anything, or a failure. */
int  frames_advance(struct frames *f, struct err *err);
