/* commits.h: when a commit is due, what it covers, and what follows from it (docs/design.md,
 * Storage and commits).
 *
 *     the commit  is
 *     NONE        none is due
 *     FLUSHING    every device flushes what was reaped before; without durability that is left out
 *     WRITING     run.db's transaction is the committer's
 *     NONE        it is durable: slots of before are free, gradients may be written again
 *
 * Where there are other ranks (ranks.h), each has its own journal. A step stands when the A of all
 * is durable: when a rank's own is, it tells the others, and no B, which would give up what the
 * step before has left, is due until all have told. What a crash leaves is either: some rank has no
 * A, then no other has a B, and those that have the A go back (recovery.h); or all have it, and go
 * on. So that they can, such an A covers nothing that was updated by then.
 *
 * A is due when all gradients of the step are on the devices (or it is skipped) and the step before
 * is committed; B when the update is complete, or some class has used half of its spares. An update
 * that ends after the flush was submitted is left to the next commit.
 *
 * The thread "committer" alone writes run.db while a training runs: a transaction may wait for a
 * drive or for another program, and reads, gradients and updates must not wait with it. It touches
 * a job and what the job points to, and nothing of the scheduler's.
 *
 *     the job     is
 *     IDLE        the scheduler's, which fills it
 *     GIVEN       the committer's: one transaction, whole or not at all
 *     OVER        the scheduler's again, with rc and why; the devices' bell rings */
#pragma once

#include "offload/stream/gradients.h"
#include "offload/stream/updates.h"

/* A transaction. What it writes was flushed before. */
struct commit_job {
    int                a;      // A, else B
    int                last;   // of its step: nothing of the step comes after it
    int                redo;   // of a step whose row is complete since before a crash
    struct runlog_step row;    // of the step
    struct runlog_choice choice; // that it was made with; layers 0: none
    size_t            *subs;   // (n_rows) which subgroups get a new row, of j.subs in order
    size_t             n_rows;
    size_t             n_sums; // A: j.grads and j.residuals of all, or none where it is skipped
    struct journal     j;      // with the state after it
    int                rc;     // 0 or -errno, with a sentence
    struct err         why;
};

struct commits {
    struct scheduler       *sched;
    struct subs      *subs;
    struct gradients *gradients;
    struct updates   *updates;
    enum { COMMIT_NONE, COMMIT_FLUSHING, COMMIT_WRITING } state;
    struct commit_job job;
    int               awaits_ranks; // A is durable here, and not known to be everywhere
    uint64_t         *next_steps;  // (ranks) the next step of each, and where it is
    size_t           *next_steps_at;
    struct comm_request telling;
    struct task      *flushes; // (n devices)
    size_t            unflushed, covered;
    uint64_t          since;   // clock_ns
    struct thread     committer;
    enum { JOB_IDLE, JOB_GIVEN, JOB_OVER } whose; // under the committer's lock
};

void commits_tables(struct commits *c, const struct store *st, struct arena *a);
/* Reads the journal and fills subs from it: they are open then, updates and gradients need not be.
 */
int  commits_open(struct commits *c, struct err *err);
int  commits_give_up(struct commits *c); // what it tells other ranks; 0 as comm_give_up
void commits_close(struct commits *c); // a transaction that was begun is ended first

/* Start the next due commit, or end the one on its way. 1 if anything moved, 0, or -errno. */
int  commits_advance(struct commits *c, struct err *err);
