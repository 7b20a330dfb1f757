/* committer.h: the thread "committer", which alone writes run.db while a training runs: a
 * transaction may wait for a drive or for another program, and reads, gradients and updates must
 * not wait with it. It touches a job and what the job points to, and nothing of the scheduler's.
 *
 *     the job    is
 *     idle       its owner's: filled, committer_give
 *     given      the committer's: one transaction, whole or not at all
 *     over       its owner's again, with rc and why; the devices' bell rings; committer_take
 */
#ifndef OFFLOAD_COMMITTER_H
#define OFFLOAD_COMMITTER_H

#include "offload/devices.h"
#include "offload/journal.h"
#include "offload/meter.h"

/* A transaction (docs/design.md, Storage and commits). What it writes was flushed before. */
struct commit_job {
    enum { COMMIT_A, COMMIT_B } kind;
    int                  last;       // of its step: nothing of the step comes after it
    int                  redo;       // of a step whose row is complete since before a crash
    struct journal_state state;      // A: the next one
    struct runlog_step   row;        // of the step
    size_t              *subs;       // (n_rows) which subgroups get a new row
    struct journal_sub  *rows;
    size_t               n_rows;
    struct journal_grad *grads;      // (n_sums) A: of all subgroups, or none where it is skipped
    uint32_t            *residuals;  // (n_sums) with error feedback
    size_t               n_sums;
    int                  rc;         // 0 or -errno, with a sentence
    struct err           why;
};

struct committer {
    struct devices  *dev;      // whether their files are there still; their bell
    struct meter    *meter;
    pthread_t        thread;
    int              started;
    pthread_mutex_t  mutex;    // guards the rest
    pthread_cond_t   changed;
    enum { COMMITTER_IDLE, COMMITTER_GIVEN, COMMITTER_OVER, COMMITTER_STOP } state;
    struct commit_job *job;
};

int  committer_open(struct committer *c, struct devices *dev, struct meter *meter,
                    struct err *err);
void committer_close(struct committer *c); // a job that was given is ended first
void committer_give(struct committer *c, struct commit_job *job);
int  committer_take(struct committer *c);  // 1: the job is over

#endif
