/* stream.h: how the model sees its parameters: blocks are lent and taken back, gradients are handed
 * over, updates are asked for. Behind it stands memory or devices, in any mode; that changes no bit
 * of the results.
 *
 * A pass (stream_begin) uses blocks along a route that the model has said before (route.h), and the
 * stream reads ahead along it. acquire, grad and send_grad are called in its order, and a block is
 * released before another one needs its frame. One thread makes all calls. A call waits only where
 * its comment says so. Calls return 0 or -errno; after an error only stream_close is allowed. */
#pragma once

#include "data/base/clock.h"
#include "kernels/update/optim.h"
#include "offload/devices/meter.h"
#include "offload/estimate/step_time.h"
#include "offload/gradient/grad_form.h"
#include "offload/layout/route.h"

struct stream_ops;
struct stream { // first member of every backend: stream_mem.c, stream_csd.c, stream_read.c
    const struct stream_ops *ops;
    struct meter *meter;   // records spans; the backend's
    uint64_t      applied; // updates asked for so far; Adam's t of the next one is this plus 1
};

/* What an update needs, and what commit A records. row.step is the step's number. The step began at
 * began_ns (clock_ns); the stream sets row.seconds when the update is asked for. skip: a gradient
 * was not finite, and states stay as they are. */
struct stream_step {
    struct runlog_step   row;
    struct optim_step    optim;
    int                  skip;
    uint64_t             began_ns;
    struct runlog_choice choice; // of activations for this step; layers 0: there is none
};

/* For backends: records the span of a step that the training thread has ended. Its seconds. */
static inline double stream_step_over(struct stream *s, const struct stream_step *step)
{
    uint64_t now = clock_ns();

    meter_span(s->meter, step->row.step, PHASE_STEP, -1, -1, step->began_ns, now, 0);
    return (double)(now - step->began_ns) * 1e-9;
}

/* The modelled moves of a step without activations, and of one byte of activations (step_work.h,
 * step_halves). may_offload: the stream has a stack for them; buffers: of that stack. */
struct stream_work {
    int    may_offload;
    size_t buffers;
    struct step_move forward, backward, write, read;
};

/* What a drive has to do besides being copied: something, nothing, or the training waits for the
 * copy. */
enum stream_held { STREAM_HELD_BUSY, STREAM_HELD_IDLE, STREAM_HELD_WANTED };

/* The calls below, as a backend implements them. A backend that only reads has none from grad to
 * hold_end. NULL is allowed for expect, release and masters_end if the call does nothing; for
 * push to work if there are no activations on devices; for norm if send_grad completes the norm. */
struct area;
struct stream_ops {
    int  (*begin)(struct stream *s, enum stream_pass pass, uint64_t step, struct err *err);
    void (*expect)(struct stream *s, const struct optim_step *optim);
    int  (*acquire)(struct stream *s, size_t block, const void **wire, struct err *err);
    void (*release)(struct stream *s, size_t block);
    int  (*grad)(struct stream *s, size_t block, size_t group, float **grad, int *fresh,
                 struct err *err);
    int  (*send_grad)(struct stream *s, size_t block, struct norm_sum *norm, struct err *err);
    int  (*norm)(struct stream *s, struct norm_sum *norm, struct err *err);
    int  (*push)(struct stream *s, int first, void **item, struct err *err);
    void (*pushed)(struct stream *s, size_t bytes, size_t left);
    int  (*pop)(struct stream *s, void **item, struct err *err);
    void (*popped)(struct stream *s);
    void (*rest)(struct stream *s);
    int  (*work)(struct stream *s, struct stream_work *out, struct err *err);
    int  (*update)(struct stream *s, const struct stream_step *step, struct err *err);
    int  (*drain)(struct stream *s, struct err *err);
    int  (*masters)(struct stream *s, uint64_t step, struct params_source *out, struct err *err);
    int  (*masters_end)(struct stream *s, struct err *err);
    void (*hold)(struct stream *s);
    int  (*held_next)(struct stream *s, size_t *unit);
    enum stream_held (*held_look)(struct stream *s, size_t unit);
    uint64_t (*held_move)(struct stream *s, size_t unit, enum link_dir dir, uint64_t bytes);
    void (*let_go)(struct stream *s, size_t unit);
    void (*hold_end)(struct stream *s);
    size_t (*area)(struct stream *s, size_t i, struct area *out);
    void (*close)(struct stream *s);
};

static inline int stream_only_reads(struct err *err)
{
    return err_set(err, -ENOTSUP,
                   "this stream only reads: it can evaluate and generate, not train");
}

/* Announce the next pass, which belongs to `step`. Reads of its first blocks begin as soon as their
 * updates end. A stream that only reads refuses to train: -ENOTSUP. */
static inline int stream_begin(struct stream *s, enum stream_pass pass, uint64_t step,
                               struct err *err)
{
    return pass == STREAM_TRAIN && !s->ops->update ? stream_only_reads(err)
                                                   : s->ops->begin(s, pass, step, err);
}

/* Optional, in a training pass before its first gradient: the numbers that stream_update will give
 * if nothing is clipped or skipped. Updates may begin with them. If stream_update gives other
 * numbers, these updates are done again. */
static inline void stream_expect(struct stream *s, const struct optim_step *optim)
{
    if (s->ops->expect)
        s->ops->expect(s, optim);
}

/* Lend a block's wire parameters (flat, 64-byte aligned, of the run's dtype) until stream_release.
 * Waits for the block's update and its read. */
static inline int stream_acquire(struct stream *s, size_t block, const void **wire, struct err *err)
{
    return s->ops->acquire(s, block, wire, err);
}

static inline void stream_release(struct stream *s, size_t block)
{
    if (s->ops->release)
        s->ops->release(s, block);
}

/* Lend the fp32 gradient of a block, flat, for one group of micro-batches (of this rank's groups,
 * from 0; ranks.h). It is the same buffer until the gradient is sent. *fresh: 1 at the first call
 * in a step: the values are undefined, and the caller writes all of them. Every group is asked for
 * before the gradient is sent. Waits for a free buffer. */
static inline int stream_grad(struct stream *s, size_t block, size_t group, float **grad,
                              int *fresh, struct err *err)
{
    return s->ops->grad ? s->ops->grad(s, block, group, grad, fresh, err) : stream_only_reads(err);
}

/* The block's gradient is complete. Its groups are added up; its sum of squares and NaN/Inf flag
 * are added to *norm; it is compressed if the run says so; its write to devices begins. With
 * several ranks it is first exchanged, and the norm is known only after stream_norm_end. */
static inline int stream_send_grad(struct stream *s, size_t block, struct norm_sum *norm,
                                   struct err *err)
{
    return s->ops->send_grad ? s->ops->send_grad(s, block, norm, err) : stream_only_reads(err);
}

/* All gradients were sent: completes *norm. With several ranks it waits for theirs. */
static inline int stream_norm_end(struct stream *s, struct norm_sum *norm, struct err *err)
{
    return s->ops->norm ? s->ops->norm(s, norm, err) : 0;
}

/* The stack for activations that a training pass's forward leaves to its backward. It exists if the
 * run's configuration has `acts`. An item is any number of bytes, up to acts.bytes. A record is a
 * row of items. Records are popped in the reverse order of their pushes; the items of one record
 * are popped in the order in which they were pushed. One item is lent at a time.
 *
 *     push    lends memory for the next item, 64-byte aligned. first: the item begins a record.
 *             Waits until earlier items are written.
 *     pushed  `bytes` of it, at least one, are filled, and this pass pushes `left` more items.
 *     pop     lends the next item as it was pushed. Waits until it is read.
 *     popped  takes it back.
 *
 * A pass pushes all items before it pops any, and pops all before stream_update. act_rule.h says
 * which items never leave memory. */
static inline int stream_push(struct stream *s, int first, void **item, struct err *err)
{
    return s->ops->push(s, first, item, err);
}

static inline void stream_pushed(struct stream *s, size_t bytes, size_t left)
{
    s->ops->pushed(s, bytes, left);
}

static inline int stream_pop(struct stream *s, void **item, struct err *err)
{
    return s->ops->pop(s, item, err);
}

static inline void stream_popped(struct stream *s) { s->ops->popped(s); }

/* Between passes: nothing is pushed for now. The stack's buffers take no memory until then. */
static inline void stream_rest(struct stream *s)
{
    if (s->ops->rest)
        s->ops->rest(s);
}

/* *out is zero if nothing can be offloaded. */
static inline int stream_work(struct stream *s, struct stream_work *out, struct err *err)
{
    *out = (struct stream_work){ 0 };
    return s->ops->work ? s->ops->work(s, out, err) : 0;
}

/* All gradients were sent: update, block 0 first; meanwhile commit A, as soon as gradients are
 * durable. Waits for the last commit of the update before. If elements of an update would overflow
 * (kernels/update/bounds.h), they stay as they were and the step is committed. A later call then
 * fails with -EDOM, at the latest the next stream_update or stream_drain. */
static inline int stream_update(struct stream *s, const struct stream_step *step, struct err *err)
{
    return s->ops->update ? s->ops->update(s, step, err) : stream_only_reads(err);
}

/* Waits until everything that was asked for is done and committed. */
static inline int stream_drain(struct stream *s, struct err *err)
{
    return s->ops->drain ? s->ops->drain(s, err) : 0;
}

/* The fp32 masters, for an export, of a drained stream (of mem, between any two steps). No other
 * call until stream_masters_end. Reads are recorded as the evaluation of `step`. Not for streams
 * that only read. */
static inline int stream_masters(struct stream *s, uint64_t step, struct params_source *out,
                                 struct err *err)
{
    return s->ops->masters(s, step, out, err);
}

static inline int stream_masters_end(struct stream *s, struct err *err)
{
    return s->ops->masters_end ? s->ops->masters_end(s, err) : 0;
}

/* Copying the committed states while the training goes on (offload/upkeep/snapshot.h). A unit is a
 * subgroup, by its number, or in mode mem the image, number 0. stream_hold is the model's thread's,
 * of a drained stream: from then on nothing writes over the states that are committed now, until
 * their unit is let go. An update or a commit that has no other place waits for that.
 *
 * One other thread copies:
 *     held_next  gives the unit to copy next: the one that is waited for, then those that are in
 *                the way, then all others as updates come to them. 0: there are no more.
 *     held_look  says whether its drive is free for a transfer. Never waits.
 *     held_move  takes the time of a transfer of so many bytes, from its drive or to it, from the
 *                modelled links, and returns the clock_ns time at which it may be over.
 *     let_go     the unit is copied.
 * held_look and held_move are allowed after that, too, until the stream is closed.
 *
 * stream_hold_end lets all go, by any thread when no other one copies. */
static inline void stream_hold(struct stream *s) { s->ops->hold(s); }

static inline int stream_held_next(struct stream *s, size_t *unit)
{
    return s->ops->held_next(s, unit);
}

static inline enum stream_held stream_held_look(struct stream *s, size_t unit)
{
    return s->ops->held_look(s, unit);
}

static inline uint64_t stream_held_move(struct stream *s, size_t unit, enum link_dir dir,
                                        uint64_t bytes)
{
    return s->ops->held_move(s, unit, dir, bytes);
}

static inline void stream_let_go(struct stream *s, size_t unit) { s->ops->let_go(s, unit); }

static inline void stream_hold_end(struct stream *s) { s->ops->hold_end(s); }

/* Where area i of the committed states lies by now (offload/devices/areas.h), so that another
 * thread can read it; out->bytes is 0 if there is none. Returns how many areas there are, and 0 for
 * a stream that only reads. Any thread, until the close. */
static inline size_t stream_area(struct stream *s, size_t i, struct area *out)
{
    return s->ops->area ? s->ops->area(s, i, out) : 0;
}

/* Frees all; NULL is fine. Nothing more is committed. */
static inline void stream_close(struct stream *s)
{
    if (s)
        s->ops->close(s);
}
