/* scheduler.h: the one thread that submits tasks to devices and reaps them, and what the parts of a
 * stream over devices (frames, gradients, updates, the act_stack, commits) share with it: devices,
 * one lock, the first error, the meter.
 *
 * The lock guards all that the parts hold, except for buffers that a state gives to one side. Two
 * threads take it. The model's thread takes it in the calls that it makes; calls that may wait take
 * it themselves and say so. The scheduler's thread holds it in every x_advance of a part and in
 * every task's done().
 *
 *     a task is
 *     idle       its part's, until scheduler_submit
 *     submitted  the device's alone, until the device has done it
 *     reaped     metered, compared with its checksum, handed to done(): its part's again
 *
 * Each time around, the scheduler reaps what is done, lets the owner submit what has become
 * possible, and sleeps on the devices' bell if neither moved anything. It does nothing after the
 * first error. */
#pragma once

#include "data/base/thread.h"
#include "offload/devices/devices.h"
#include "offload/devices/meter.h"

struct task;
struct task_kind {
    enum { TASK_OF_SUBGROUP, TASK_OF_STEP, TASK_OF_DEVICE } of;
    void (*done)(void *part, struct task *t); // the scheduler's thread, lock held
    /* Of a read whose bytes are compared with the checksum in job.tag: what was read, and its verb
     * ("is", "are") in the sentence of a difference. NULL: nothing is compared. */
    const char *what, *is;
};
struct task {
    struct csd_job          job;  // first member
    const struct task_kind *kind;
    void                   *part;
    size_t                  sub;  // the subgroup, for TASK_OF_SUBGROUP
    uint64_t                step;
    enum runlog_phase       phase;
};

struct scheduler {
    struct run_config cfg;    // what it points to is the opener's
    struct devices    dev;    // the thread's while it runs, otherwise the owner's
    struct meter     *meter;
    uint64_t          step;   // of the pass under way
    struct thread     thread;
    int               failed; // 0, or -errno of the first error, with why
    struct err        why;
    uint64_t          rings;  // of the devices' bell that the thread has heard
    /* The owner's. advance submits what has become possible, with the lock held: 1 if anything
     * moved, 0, or -errno. polls: whether something is awaited that rings no bell (another rank).
     * rest_ns: the longest rest of the thread while no bell rings; 0: a second. */
    int    (*advance)(void *ctx, struct err *err);
    int    (*polls)(void *ctx);
    void    *ctx;
    uint64_t rest_ns;
};

/* Spans of a step that are recorded one by one. */
enum { SCHEDULER_SPANS = 16384,
       SCHEDULER_SPANS_BYTES = 2 * SCHEDULER_SPANS * sizeof(struct runlog_span) };

/* The owner sets cfg, dev, meter, advance, polls and ctx; init makes the lock. stop waits for the
 * end of the thread, which may be started again; without a thread it does nothing. */
void scheduler_init(struct scheduler *s);
void scheduler_release(struct scheduler *s);
int  scheduler_start(struct scheduler *s, struct err *err);
void scheduler_stop(struct scheduler *s);

/* unlock returns 0, or the first error with its sentence. ring: wake the scheduler's thread. */
void scheduler_lock(struct scheduler *s);
int  scheduler_unlock(struct scheduler *s, int ring, struct err *err);
/* Lock held. Only the first error is kept. */
void scheduler_fail(struct scheduler *s, int rc, const struct err *why);

/* A wait of the model's thread, lock held: a loop that calls scheduler_wait until the state is the
 * wanted one, and scheduler_waited after it. scheduler_wait returns when anything has changed, or 0
 * if the stream has failed. `phase` says what is waited for now; each phase is metered as a span of
 * the step of the pass under way, or with scheduler_waited_in of another step. */
struct scheduler_wait {
    int               block; // that is waited for; -1: none
    enum runlog_phase phase; // of the latest wait
    uint64_t          since; // clock_ns of its beginning; 0: there was no wait
};
int  scheduler_wait(struct scheduler *s, struct scheduler_wait *w, enum runlog_phase phase);
void scheduler_waited(struct scheduler *s, struct scheduler_wait *w);
void scheduler_waited_in(struct scheduler *s, struct scheduler_wait *w, uint64_t step);

/* Meter an exchange of a block with other ranks, in bytes, from since_ns until now. The network is
 * metered as one more device, numbered after all others. Any thread. */
void scheduler_network(struct scheduler *s, enum runlog_phase phase, size_t block,
                       enum link_class cls, uint64_t sent, uint64_t came, uint64_t since_ns);

/* The number by which reads of a base in place are metered: one more device, behind the network. */
int  scheduler_files(const struct scheduler *s);

/* Lock held, the scheduler's thread. */
void scheduler_submit(struct scheduler *s, size_t device, struct task *t);
