/* updates.h: the updates of a step on its devices.
 *
 *     the step   is
 *     NONE       no update is asked for                                     updates_ask
 *     WAITING    for commit A, which comes when all gradients are on the    updates_committed
 *                devices; updates are made meanwhile, for the fate of the
 *                step is known, only not durable
 *     RUNNING    until its last commit B                                    updates_committed
 *
 * `applied` counts the updates that updates_ask was asked for, and is the version that a pass reads
 * of everything. A subgroup's newest version is
 *     applied      in all but the following cases
 *     applied - 1  the update asked for last has not come to it yet: whoever wants to read it waits
 *     applied + 1  it was speculated on: of the step under way the gradient is on its device, the
 *                  norm is not known
 *
 * Speculation (cfg.speculate). The model says with which numbers the update will be asked for if
 * nothing is clipped (updates_expect); from then on a subgroup is updated as soon as its gradient
 * is written. No pass sees it: its parameters were needed last for that very gradient (route.h).
 * The block of the last gradient, which a GPT-2's block 0 is, is left out: the norm is known with
 * it. When the update is asked for, its numbers are the expected ones to the last bit, and then
 * what was speculated on stands; or they are not, and the new slots are dropped. */
#pragma once

#include "offload/devices/scheduler.h"
#include "offload/stream/subs.h"

/* A subgroup's update, and where its weight decay changes. */
struct update {
    struct task               task, ahead; // all of it; its parameters, which forward waits for
    uint64_t                  version; // the new one
    const struct csd_segment *segments;
    size_t                    n_segments;
    double                    most_decay; // of theirs
};

/* A device's subgroups, in order of blocks. */
struct update_queue {
    size_t first, next, end; // in updates.order
    size_t out;              // updates
};

struct updates {
    struct scheduler          *sched;
    struct subs         *subs;
    struct update       *of;       // (n_subs)
    size_t              *order;    // (n_subs)
    struct update_queue *queues;   // (n devices)
    enum { ASK_NONE, ASK_WAITING, ASK_RUNNING } ask;
    struct stream_step   asked;
    uint64_t             applied;
    struct optim_step    numbers;  // of the running update, and the version that it makes
    uint64_t             version;
    size_t               to_update, to_commit; // subgroups of it, since its A
    int                  redo;     // it was decided on before a crash
    int                  expecting; // subgroups may be updated to applied + 1 with `expected`
    struct optim_step    expected;
    int                  clipped;  // the last step that was not skipped: no speculation until one
                                   // was not clipped
};

void updates_tables(struct updates *u, const struct store *st, struct arena *a);
/* What commit A decided and a crash left undone is running then. */
void updates_open(struct updates *u);

/* The model's, lock held. */
void updates_expect(struct updates *u, const struct optim_step *numbers);
void updates_ask(struct updates *u, const struct stream_step *step);
/* Every update that can be made is submitted; whether there was any. */
int  updates_advance(struct updates *u);
/* A commit, A or B, is durable, subs_commit was called. */
void updates_committed(struct updates *u, int a);
