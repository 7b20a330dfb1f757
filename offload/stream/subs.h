/* subs.h: the state of every subgroup in a training: its newest and its committed version, its
 * gradient, and which slots are free. It knows no thread and no job. Calls are made with the
 * scheduler's lock held (scheduler.h).
 *
 *     CLEAN      the newest slot is the committed one
 *      | subs_begin: an update is submitted, to a free slot
 *     UPDATING  -- subs_drop: speculation failed -->  DROPPED, until the job is back: CLEAN
 *      | subs_ahead: the new parameters may be read, moments are on their way
 *      | subs_end: the update is complete
 *     UPDATED   -- subs_drop -->  CLEAN
 *      | subs_cover: a commit is on its way that names the new slot
 *     COVERED
 *      | subs_commit: the commit is durable, and the old slot is free
 *     CLEAN
 *
 * A pass may read `wire`: that of the newest slot, and from subs_ahead on that of the slot on its
 * way. Nothing else uses the slot on its way before subs_end: a commit covers only UPDATED
 * subgroups.
 *
 * A subgroup's version is the number of updates in it. Its committed version is state.applied or
 * one less: nothing of a step is committed before the step's A. A frozen subgroup stays CLEAN, and
 * its version is SUBS_FROZEN: no update of it is ever missing. */
#pragma once

#include "data/base/arena.h"
#include "offload/devices/journal.h"
#include "offload/layout/store.h"
#include "offload/stream/stream.h"

#define SUBS_FROZEN UINT64_MAX
enum sub_state { SUB_CLEAN, SUB_UPDATING, SUB_UPDATED, SUB_COVERED, SUB_DROPPED };
struct sub_wire { uint64_t version; uint32_t slot, crc; };
struct sub {
    enum sub_state      state;
    struct journal_sub  newest, committed;
    struct sub_wire     wire;      // may be read
    struct journal_grad grad;
    int                 written;   // the gradient of the step under way is written; until A
    int                 again;     // its update was dropped: the next one is metered as a redo
    uint32_t            residual_crc, residual_next; // committed; of the step under way
    struct bounds       bounds;    // of the newest version's values
    double              grad_most; // no magnitude in the gradient exceeds it
    struct overflow     overflow;  // in the newest version's update, until it is committed
    enum { SUB_FREE, SUB_HELD, SUB_OWED } held; // for a snapshot; OWED: its slot is committed no
                                                // more, and free when it is let go
    uint32_t            held_slot;
};

/* The free slots of a size class (n), and how many of the others wait for a commit to free them, or
 * for a snapshot's copy. */
struct class_free { uint32_t *slots; size_t n, uncommitted, owed; };

struct subs {
    const struct store  *store;
    struct sub          *sub;       // (store->n_subs)
    struct class_free   *free;      // (store->n_classes)
    uint32_t            *slots;     // memory of all free lists
    size_t               dropping;  // subgroups in state DROPPED
    struct journal_state state;     // of the last commit A
    struct param_set     overflow;  // in all committed updates
    // of a snapshot that is being copied
    size_t  *owed;        // (n_owed) subgroups in state OWED, from owed_next on
    size_t   n_owed, owed_next;
    size_t   held, at;    // subgroups that are held; of the order of copying, so many are done
    uint64_t held_applied; // state.applied of what is held
    size_t   asked;       // the subgroup that is waited for; SUBS_NONE
    int      wanted;      // something waits until any is let go
};
#define SUBS_NONE SIZE_MAX

void subs_tables(struct subs *s, const struct store *st, struct arena *a);
/* Take the state from the journal of the run in dir. -EBADMSG: two rows name the same slot. */
int  subs_open(struct subs *s, const struct store *st, const struct journal *j, const char *dir,
               struct err *err);

/* True if all subgroups of a block are at this version: the committed one, or the one to be read.
 */
int subs_all(const struct subs *s, size_t block, uint64_t version, int committed);

/* The transitions above, of subgroup i. slot_free: true if there is a slot for its update; begin
 * returns that slot. ahead has no effect on a dropped update; end returns 0 for one. drop's again:
 * the update will be made again. cover and commit are of all subgroups that are UPDATED, or
 * COVERED; cover returns their number. */
int      subs_slot_free(const struct subs *s, size_t i);
uint32_t subs_begin(struct subs *s, size_t i);
void     subs_ahead(struct subs *s, size_t i, const struct sub_wire *wire);
int      subs_end(struct subs *s, size_t i, const struct journal_sub *newest);
void     subs_drop(struct subs *s, size_t i, int again);
size_t   subs_cover(struct subs *s);
void     subs_commit(struct subs *s);

/* A snapshot is copied while the training goes on (stream.h, stream_hold). hold: the committed
 * slots and residuals of all subgroups are kept from now on. held_next gives the subgroup to copy
 * next, each once; frozen ones, which nobody writes, are the last. reverse: updates come to the
 * last block first. 0: there are no more. let_go: subgroup i is copied. */
void subs_hold(struct subs *s);
int  subs_held_next(struct subs *s, int reverse, size_t *i);
void subs_let_go(struct subs *s, size_t i);
/* An update of subgroup i has no free slot. */
void subs_want(struct subs *s, size_t i);
/* True if the block's residuals cannot be written yet, because a snapshot's copy lacks the area.
 * It is then copied next. */
int  subs_residual_held(struct subs *s, size_t block);
