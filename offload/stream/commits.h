/* commits.h: when a commit is due, what it covers, and what follows from it (docs/design.md,
 * Storage and commits).
 *
 *     the commit is
 *     NONE        not due
 *     FLUSHING    every device flushes what was reaped before; skipped without durability
 *     WRITING     the committer's: a transaction in run.db
 *     NONE        durable: old slots are free, gradients may be written again
 *
 * Where there are other ranks (ranks.h), each has its own journal. A step stands when the A of all
 * is durable: when a rank's own is, it tells the others, and no B, which would give up what the
 * step before has left, is due until all have told. What a crash leaves is either: some rank has no
 * A, then no other has a B, and those that have the A go back (recovery.h); or all have it, and go
 * on. So that they can, such an A covers nothing that was updated by then.
 *
 * A is due when all gradients of the step are on the devices (or the step is skipped) and the step
 * before is committed. B is due when the update is complete, or when a size class has used half of
 * its spare slots. An update that ends after the flush was submitted is left to the next commit.
 *
 * While a training runs, only the thread "committer" writes run.db. A transaction may wait for a
 * drive or for another program, and reads, gradients and updates must not wait with it. The
 * committer touches a job and what the job points to, and nothing of the scheduler's.
 *
 *     the job is
 *     IDLE        the scheduler's, which fills it
 *     GIVEN       the committer's: one transaction, whole or not at all
 *     OVER        the scheduler's again, with rc and why; the devices' bell rings
 *
 * All calls but open and close are the scheduler's thread's, with the lock held. */
#pragma once

#include "offload/stream/gradients.h"
#include "offload/stream/updates.h"

/* A transaction. What it names was flushed before. */
struct commit_job {
    int                a;      // true: A; false: B
    int                last;   // true if it is the last commit of its step
    int                redo;   // true if the step's row was complete before a crash
    struct runlog_step row;    // of the step
    struct runlog_choice choice; // of the step's activations; layers 0: there is none
    size_t            *subs;   // (n_rows) subgroups that get a new row; the i-th row is j.subs[i]
    size_t             n_rows;
    size_t             n_sums; // A: rows of j.grads and j.residuals: of all subgroups but frozen
                               // ones, or none if the step is skipped
    struct journal     j;      // with the state after the commit
    int                rc;     // result: 0, or -errno with a sentence in why
    struct err         why;
};

struct commits {
    struct scheduler  *sched;
    struct subs      *subs;
    struct gradients *gradients;
    struct updates   *updates;
    enum { COMMIT_NONE, COMMIT_FLUSHING, COMMIT_WRITING } state;
    struct commit_job job;
    int               awaits_ranks;   // A is durable here, and not known to be on all ranks
    uint64_t         *next_steps;     // (ranks) that they have told
    size_t           *next_steps_at;  // (ranks + 1) where these begin, in bytes
    struct comm_request telling;
    struct task      *flushes; // (n devices)
    size_t            unflushed; // flushes that are not back
    size_t            covered;   // subgroups of the commit
    uint64_t          since;     // clock_ns of its beginning
    struct thread     committer;
    enum { JOB_IDLE, JOB_GIVEN, JOB_OVER } whose; // under the committer's lock
};

void commits_tables(struct commits *c, const struct store *st, struct arena *a);
/* open reads the journal, opens subs from it, and starts the committer. give_up ends what is under
 * way between ranks; it returns as comm_give_up. close waits for a transaction that was given. */
int  commits_open(struct commits *c, struct err *err);
int  commits_give_up(struct commits *c);
void commits_close(struct commits *c);

/* Begin the next due commit, or advance the one on its way. 1 if anything moved, 0, or -errno. */
int  commits_advance(struct commits *c, struct err *err);
