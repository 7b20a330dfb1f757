/* updates.h: the updates of a step on its devices.
 *
 *     the step is                                                           next
 *     NONE       without an update                                          updates_ask
 *     WAITING    waits for commit A, which comes when all gradients are     updates_committed
 *                on the devices. Updates are made meanwhile: the step is
 *                decided, only not yet durable
 *     RUNNING    waits for its last commit B                                updates_committed
 *
 * `applied` counts the calls of updates_ask that were not skipped. It is the version at which a
 * pass reads everything. A subgroup's newest version is
 *     applied      usually
 *     applied - 1  if the last update has not come to it yet: a reader waits
 *     applied + 1  if it was updated by speculation: its gradient of the step under way is on its
 *                  device, the norm is not known
 *
 * Speculation (cfg.speculate): the model says with which numbers the update will be asked for if
 * nothing is clipped (updates_expect). From then on a subgroup is updated as soon as its gradient
 * is written. No pass sees that, because its parameters were last needed for this gradient
 * (route.h). The block of the last gradient (block 0 of a GPT-2) is left out, because the norm is
 * known with it. When the update is asked for, its numbers are compared with the expected ones, to
 * the last bit. If they differ, the new slots are dropped.
 *
 * Calls are made with the lock held (scheduler.h): expect and ask by the model's thread, the others
 * by the scheduler's. */
#pragma once

#include "offload/devices/scheduler.h"
#include "offload/stream/subs.h"

/* A subgroup's update. */
struct update {
    struct task               task;       // the whole update
    struct task               ahead;      // its parameters, which forward waits for
    uint64_t                  version;    // that it makes
    const struct csd_segment *segments;   // (n_segments) of equal weight decay
    size_t                    n_segments;
    double                    most_decay; // the largest decay of them
};

/* A device's trained subgroups, in order of blocks. */
struct update_queue {
    size_t first, next, end; // in updates.order
    size_t out;              // updates that are submitted and not back
};

struct updates {
    struct scheduler     *sched;
    struct subs         *subs;
    struct update       *of;        // (n_subs)
    size_t              *order;     // (store.n_trained) by device, then by block
    struct update_queue *queues;    // (n devices)
    enum { ASK_NONE, ASK_WAITING, ASK_RUNNING } ask;
    struct stream_step   asked;
    uint64_t             applied;
    struct optim_step    numbers;   // of the running update
    uint64_t             version;   // that it makes
    size_t               to_update, to_commit; // its subgroups that are still to be
    int                  redo;      // true if it was decided on before a crash
    int                  expecting; // true if subgroups may be updated to applied + 1, with
    struct optim_step    expected;  // these numbers
    int                  clipped;   // the last step that was not skipped was clipped: speculation
                                    // pauses until one is not
};

void updates_tables(struct updates *u, const struct store *st, struct arena *a);
/* At open: resumes the update that the last commit A decided on, if a crash left it undone. */
void updates_open(struct updates *u);

/* The model's thread. These only note what is wanted: the scheduler's thread submits it to the
 * devices (advance in stream_csd.c calls updates_advance). */
void updates_expect(struct updates *u, const struct optim_step *numbers);
void updates_ask(struct updates *u, const struct stream_step *step);
/* Submit all updates that are possible. True if there were any. */
int  updates_advance(struct updates *u);
/* A commit is durable, and subs_commit was called. a: it is A, otherwise B. */
void updates_committed(struct updates *u, int a);
