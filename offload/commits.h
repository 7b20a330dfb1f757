/* commits.h: when a commit is due, what it covers, and what follows from it (docs/design.md,
 * Storage and commits).
 *
 *     the commit  is
 *     NONE        none is due
 *     FLUSHING    every device flushes what was reaped before; without durability that is left out
 *     WRITING     run.db's transaction is the committer's (committer.h)
 *     NONE        it is durable: slots of before are free, gradients may be written again
 *
 * A is due when all gradients of the step are on the devices (or it is skipped) and the step before
 * is committed; B when the update is complete, or some class has used half of its spares. An update
 * that ends after the flush was submitted is left to the next commit. */
#ifndef OFFLOAD_COMMITS_H
#define OFFLOAD_COMMITS_H

#include "offload/committer.h"
#include "offload/gradients.h"
#include "offload/updates.h"

struct commits {
    struct hub       *hub;
    struct subs      *subs;
    struct gradients *gradients;
    struct updates   *updates;
    struct committer  committer;
    enum { COMMIT_NONE, COMMIT_FLUSHING, COMMIT_WRITING } state;
    struct commit_job job;
    struct task      *flushes; // (n devices)
    size_t            unflushed, covered;
    uint64_t          since;   // clock_ns
};

/* Reads the journal and fills subs from it: they are open then, updates and gradients need not be.
 */
int    commits_open(struct commits *c, struct hub *h, struct subs *subs, struct err *err);
void   commits_stop(struct commits *c);  // a transaction that was begun is ended first
void   commits_close(struct commits *c); // after the devices: flushes may be out
size_t commits_tables(const struct store *st);

/* Start the next due commit, or end the one on its way. 1 if anything moved, 0, or -errno. */
int commits_advance(struct commits *c, struct err *err);

#endif
