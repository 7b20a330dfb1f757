/* scheduler.h: the state of a training stream over devices, private to scheduler.c (its thread:
 * what is submitted when), commit.c (what is durable when) and stream_csd.c (the model's side).
 *
 * Division of labour. The model's thread asks (acquire, send_grad, update) and waits on `changed`;
 * the scheduler's thread alone talks to the devices and to run.db. All fields below `mutex` are
 * guarded by it, but for buffers that a state gives to one side.
 *
 * Versions. A subgroup's version is the number of updates in it. `applied` counts the updates that
 * stream_update asked for, and is the version that a pass reads of everything; state.applied those
 * that a commit A has decided on. A subgroup's newest version is
 *     applied      in all but the following cases
 *     applied - 1  the update asked for last has not come to it yet: whoever wants to read it waits
 *     applied + 1  it was speculated on: of the step under way the gradient is on its device, the
 *                  norm is not known
 * The committed version of a subgroup is state.applied or one less: nothing of a step is committed
 * before its A.
 *
 * Speculation (cfg.speculate). The model says with which numbers the update will be asked for if
 * nothing is clipped (stream_expect); from then on a subgroup is updated as soon as its gradient is
 * written. No pass sees it: its parameters were needed last for that very gradient, and block 0,
 * which stays in its frame, is left out. When the update is asked for, its numbers are the expected
 * ones to the last bit, and then what was speculated on stands; or they are not, and the new slots
 * are dropped.
 *
 * No update waits for commit A, speculated on or not: the fate of the step is known, only not
 * durable, and what is committed is overwritten by nothing. A covers what is updated by then, as a
 * B does. */
#ifndef OFFLOAD_SCHEDULER_H
#define OFFLOAD_SCHEDULER_H

#include "offload/devices.h"
#include "offload/grads.h"
#include "offload/journal.h"
#include "offload/master_reader.h"
#include "offload/meter.h"
#include "offload/order.h"

#include <pthread.h>

/* A job with what the scheduler needs when it comes back. */
enum task_kind { TASK_READ, TASK_GRAD, TASK_RESIDUAL_READ, TASK_RESIDUAL_WRITE, TASK_RECORD_READ,
                 TASK_RECORD_WRITE, TASK_UPDATE, TASK_FLUSH };
struct task {
    struct csd_job   job; // first member
    enum task_kind   kind;
    size_t           sub; // of a flush: the device; of a record: nothing
    uint64_t         step;
    uint64_t         version; // of an update: the new one
    enum runlog_phase phase;
};

/* Subgroups [next, end) of a block, one device's, are not yet submitted. */
struct shard_read { size_t next, end; };

/* A buffer that blocks stream through. `users`: uses in the current pass that have been given it
 * and not released it. */
struct frame {
    void    *wire;
    size_t   block;      // whose parameters it holds or is getting; SIZE_MAX: none
    uint64_t version;
    size_t   unread;     // subgroups still to be read
    size_t   unasked;    // of them not submitted yet
    struct shard_read *shards; // (n devices)
    unsigned users;
};

/* The residual beside a gradient: ASKED (model) -> READING (scheduler) -> READY. */
enum residual_ask { RESIDUAL_READY, RESIDUAL_ASKED, RESIDUAL_READING };

/* What RAM holds of a block's residual, where all of it stays in RAM: nothing, the committed one,
 * or that of the step under way, which a skip drops: it is read again then. */
enum residual_held { HELD_NONE, HELD_COMMITTED, HELD_NEXT };
struct residual { float *values; enum residual_held held; };

/* A gradient buffer: FREE -> LENT (model) -> QUEUED (scheduler) -> WRITING -> FREE. */
enum gbuf_state { GBUF_FREE, GBUF_LENT, GBUF_QUEUED, GBUF_WRITING };
struct gbuf {
    float          *grad;
    void           *pack;  // compressed form
    enum gbuf_state state;
    size_t          block;
    uint64_t        step;
    float          *residual; // of its block, with error feedback: in a buffer of its own, or all
                              // of the time in RAM
    enum residual_ask residual_ask;
    size_t          unread;    // subgroups of it
    size_t          unwritten; // writes
    double          most;      // what no magnitude in it exceeds
    struct grads_part *parts; // one for each subgroup of its block
};

/* A buffer that records pass through: IDLE, lent or not -> FILLED (pushed) -> WRITING -> IDLE, and
 * in backward IDLE -> READING -> IDLE. A record that is popped before it is written is lent
 * meanwhile. */
enum record_state { RECORD_IDLE, RECORD_FILLED, RECORD_WRITING, RECORD_READING };
struct record_buffer {
    void             *values;
    enum record_state state;
    int               lent;       // to the model
    size_t            record;     // what it holds, or is getting; SIZE_MAX: nothing
    size_t            unfinished; // parts
    struct task      *parts;      // (n devices)
};
struct records {
    struct record_buffer *buffers;
    size_t                n_buffers;
    struct task          *tasks; // backing of all parts
    size_t               *bytes; // (records)
    uint32_t             *crc;   // (records, n devices)
    size_t                depth; // records on the stack
    int                   popping;
};

/* A subgroup: CLEAN (newest slot committed) -> UPDATING (job out, to a free slot) -> UPDATED
 * (newest slot not committed) -> COVERED (a commit of it is on its way) -> CLEAN. Speculation that
 * failed takes UPDATED back to CLEAN, and UPDATING to DROPPED (job still out) -> CLEAN. */
enum sub_state { SUB_CLEAN, SUB_UPDATING, SUB_UPDATED, SUB_COVERED, SUB_DROPPED };
struct sub {
    enum sub_state      state;
    struct journal_sub  newest, committed;
    struct journal_grad grad;
    int                 written;  // its gradient of the step under way, until A
    int                 again;    // its update was dropped: the next one is metered as done again
    uint32_t            residual_crc, residual_next; // committed; of the step under way
    struct reach        reach;    // of the newest version
    double              grad_most; // what no magnitude in the gradient exceeds
    struct reach_kept   kept;     // by the newest version's update, until it is committed
    struct task         read, write, residual, update;
    const struct csd_segment *segments;
    size_t              n_segments;
};

struct class_free { uint32_t *slots; size_t n, uncommitted; };

/* An update that was asked for: WAITING until commit A, which comes when all gradients are on the
 * devices, then RUNNING until its last commit B. */
enum ask_state { ASK_NONE, ASK_WAITING, ASK_RUNNING };

enum commit_kind { COMMIT_NONE, COMMIT_A, COMMIT_B };

struct scheduler {
    struct stream     base;
    struct run_config cfg; // pointers borrowed
    struct devices    dev;
    struct journal   *journal;
    struct master_reader    masters; // while they are lent the thread is not there
    struct meter     *meter;
    size_t            n_layer;
    void             *scratch;
    struct csd_segment *segments;
    pthread_t         thread;
    int               thread_started;

    pthread_mutex_t   mutex;
    pthread_cond_t    changed;
    int               stop, failed; // failed: -errno
    struct err        error;

    // the pass
    enum stream_pass  pass;
    uint64_t          pass_step;
    struct order_use *uses;
    size_t            n_uses, next_read, next_acquire;
    size_t            unread_bytes; // of all frames
    struct frame     *frames; // n_frames layer frames, embeddings, final norm
    struct shard_read *shard_reads; // backing of all of theirs
    size_t            n_frames;

    // gradients of the current step
    struct gbuf      *gbufs; // n_gbufs layer buffers, embeddings, final norm
    size_t            n_gbufs;
    size_t            grads_sent, grads_written; // blocks
    struct residual  *residuals; // (n blocks), if they stay in RAM
    struct records    records;   // activations that wait on the devices

    // updates
    struct sub       *subs;
    struct class_free *free;
    uint32_t         *free_slots;   // backing of all free lists
    size_t           *queue, *queue_first; // subgroups of each device in order of blocks:
                                           // queue[queue_first[d]..queue_first[d+1])
    size_t           *queue_next;   // (n devices)
    size_t           *updating;     // (n devices): updates that are out
    enum ask_state    ask;
    struct stream_step asked;
    struct journal_state state;     // of the last commit A
    uint64_t          applied;      // asked for, the running one included
    struct optim_step running; // the numbers of the running update, and the version that it makes
    uint64_t          running_version;
    size_t            to_update, to_commit; // subgroups of the running update, since its A
    int               redo;
    struct param_set kept;        // of all updates that were committed

    // speculation
    int               expecting; // subgroups may be updated to version applied + 1 with `expected`
    struct optim_step expected;
    int               clipped;      // the last step that was not skipped: no speculation until one
                                    // was not clipped
    size_t            dropping;     // subgroups in state DROPPED

    // the commit on its way: its flushes are out
    enum commit_kind  commit;
    struct task      *flushes; // (n devices)
    size_t            unflushed;
    uint64_t          commit_ns;
};

/* scheduler.c; all but the thread itself with the mutex held. */
void *scheduler_thread(void *scheduler);
void  scheduler_fail(struct scheduler *s, int rc, const struct err *err);
int scheduler_failed(struct scheduler *s, struct err *err); // mutex not held: 0, or the first error
/* Subgroups of block that are not yet at `applied`. */
size_t scheduler_version_lag(const struct scheduler *s, size_t block);
/* Nothing is read further ahead until the model acquires a block, or what was asked for is there.
 */
int  scheduler_reads_enough(const struct scheduler *s);
/* to_update and to_commit, of running_version. */
void scheduler_count(struct scheduler *s);
/* A slot of subgroup i's class is free. */
void scheduler_slot_free(struct scheduler *s, size_t i, uint32_t slot);
/* The running update begins, or begins again, with block 0. */
void scheduler_queue(struct scheduler *s);
/* The step is asked for: does speculation stand? */
void scheduler_judge(struct scheduler *s, const struct stream_step *step);

/* records.c: the model's calls; then, with the mutex held, the thread's. */
int records_open(struct scheduler *s, struct err *err); // the tables; values are set by who has the
                                                        // arena
void records_close(struct scheduler *s);
int  records_push(struct stream *stream, void **record, struct err *err);
void records_pushed(struct stream *stream, size_t bytes, size_t left);
int  records_pop(struct stream *stream, void **record, struct err *err);
void records_popped(struct stream *stream);
int  records_advance(struct scheduler *s);
void records_done(const struct task *t);
/* The model's, before a step's update: what of this step is still being written is counted as its
 * own. */
void records_settle(struct scheduler *s);

/* commit.c; all with the mutex held. */
/* Start the next due commit, or end the one whose flushes are back. */
int  commit_advance(struct scheduler *s, int *progress, struct err *err);
int  commit_due_b(const struct scheduler *s);

#endif
