/* subs.h: what is known of every subgroup of a training: its newest and its committed version, its
 * gradient, and which slots are free. No thread and no job is known here; the lock is
 * scheduler.h's.
 *
 *     CLEAN      the newest slot is the committed one
 *      | subs_begin: an update is out, to a free slot
 *     UPDATING  -- subs_drop: speculation failed -->  DROPPED, until the job is back: CLEAN
 *      | subs_ahead: what the update makes of the parameters may be read, its moments are on
 *      |             their way
 *      | subs_end
 *     UPDATED   -- subs_drop -->  CLEAN
 *      | subs_cover: a commit is on its way that names the new slot
 *     COVERED
 *      | subs_commit: it is durable, and the slot of before is free
 *     CLEAN
 *
 * What a pass may read is `wire`: of the newest slot, and from subs_ahead on of the one on its way.
 * Nothing else knows of that one before subs_end: a commit covers what is UPDATED alone.
 *
 * A subgroup's version is the number of updates in it. What is committed of it is state.applied or
 * one less: nothing of a step is committed before its A. */
#pragma once

#include "data/base/arena.h"
#include "offload/devices/journal.h"
#include "offload/layout/store.h"
#include "offload/stream/stream.h"

enum sub_state { SUB_CLEAN, SUB_UPDATING, SUB_UPDATED, SUB_COVERED, SUB_DROPPED };
struct sub_wire { uint64_t version; uint32_t slot, crc; };
struct sub {
    enum sub_state      state;
    struct journal_sub  newest, committed;
    struct sub_wire     wire;      // what may be read
    struct journal_grad grad;
    int                 written;   // its gradient of the step under way, until A
    int                 again;     // its update was dropped: the next one is metered as done again
    uint32_t            residual_crc, residual_next; // committed; of the step under way
    struct bounds        bounds;     // of the newest version
    double              grad_most; // what no magnitude in the gradient exceeds
    struct overflow   overflow;      // by the newest version's update, until it is committed
};

struct class_free { uint32_t *slots; size_t n, uncommitted; };

struct subs {
    const struct store  *store;
    struct sub          *sub;       // (store->n_subs)
    struct class_free   *free;      // (store->n_classes)
    uint32_t            *slots;     // backing of all free lists
    size_t               dropping;  // subgroups in state DROPPED
    struct journal_state state;     // of the last commit A
    struct param_set     overflow;      // of all updates that were committed
};

void subs_tables(struct subs *s, const struct store *st, struct arena *a);
/* From the journal in dir; a slot that two of its rows name is refused (-EBADMSG). */
int  subs_open(struct subs *s, const struct store *st, const struct journal *j, const char *dir,
               struct err *err);

/* Whether all of a block are at this version, what may be read or what is committed. */
int subs_all(const struct subs *s, size_t block, uint64_t version, int committed);

int      subs_slot_free(const struct subs *s, size_t i);
uint32_t subs_begin(struct subs *s, size_t i); // the slot that the update writes
/* The update's wire may be read; not, where it was dropped meanwhile. */
void     subs_ahead(struct subs *s, size_t i, const struct sub_wire *wire);
/* The update is back; 0: it was dropped meanwhile. */
int      subs_end(struct subs *s, size_t i, const struct journal_sub *newest);
/* The new slot of a subgroup, there or on its way, is not to be. again: it will be made again. */
void     subs_drop(struct subs *s, size_t i, int again);
size_t   subs_cover(struct subs *s);  // all that are updated; how many are covered
void     subs_commit(struct subs *s); // all that are covered
