/* hub.h: what the parts of a stream over devices have in common (frames, gradients, updates, the
 * act_stack, commits): the devices and the tasks on them, one lock, the first error, the meter.
 *
 * The lock guards all that the parts hold, but for buffers that a state gives to one side. Two
 * threads take it: the model's, in the calls that it makes (those that may wait take it themselves
 * and say so), and the scheduler's, which alone submits and reaps: every x_advance and every task's
 * done() is called by it with the lock held.
 *
 *     a task     is
 *     its part's until hub_submit
 *     out        until its device has done it; only the device touches it
 *     back       in hub_reap: metered, compared, handed to done(), and its part's again
 */
#pragma once

#include "data/base/thread.h"
#include "offload/devices/devices.h"
#include "offload/devices/meter.h"

struct task;
struct task_kind {
    enum { TASK_OF_SUBGROUP, TASK_OF_STEP, TASK_OF_DEVICE } of;
    void (*done)(void *part, struct task *t);
    const char *what, *is; // of a read: what is compared with the checksum in job.tag, and "is"
};
struct task {
    struct csd_job          job;  // first member
    const struct task_kind *kind;
    void                   *part;
    size_t                  sub;  // the subgroup, if it is of one
    uint64_t                step;
    enum runlog_phase       phase;
};

struct hub {
    struct run_config cfg;        // what it points to is the opener's
    struct devices    dev;
    struct meter     *meter;
    uint64_t          step;       // of the pass under way
    struct thread     scheduler;  // while it does not run, the devices are its owner's
    int               failed;     // -errno, and why
    struct err        why;
};

/* Spans of a step that are kept one by one. */
enum { HUB_SPANS = 16384, HUB_SPANS_BYTES = 2 * HUB_SPANS * sizeof(struct runlog_span) };

void hub_enter(struct hub *h); // takes the lock
/* Gives it back; ring: the scheduler's thread looks at once. 0, or the first error of all. */
int  hub_leave(struct hub *h, int ring, struct err *err);
void hub_fail(struct hub *h, int rc, const struct err *why); // lock held: the first one counts
/* A wait of the model's thread, lock held, in a loop of hub_wait: until anything changed, for what
 * `phase` says it is waiting for now; 0: the stream has failed. hub_waited: the loop is over. What
 * was waited for, one after the other, is metered, under the step of the pass under way or another
 * one. */
struct hub_wait {
    int               block; // whose; -1: no one's
    enum runlog_phase phase; // of the latest wait,
    uint64_t          since; // when it began; 0: there was none
};
int  hub_wait(struct hub *h, struct hub_wait *w, enum runlog_phase phase);
void hub_waited(struct hub *h, struct hub_wait *w);
void hub_waited_in(struct hub *h, struct hub_wait *w, uint64_t step);

/* A block was sent to other ranks, and came from them, since then. Their network is metered as one
 * device more, behind all others. */
void hub_moved(struct hub *h, enum runlog_phase phase, size_t block, enum link_class cls,
               uint64_t sent, uint64_t came, uint64_t since_ns);

void hub_submit(struct hub *h, size_t device, struct task *t);
/* What every device has done. 1 if anything, 0, or -errno and the sentence of what failed. The
 * lock must not be held: it is taken for done() alone. */
int  hub_reap(struct hub *h, struct err *err);
