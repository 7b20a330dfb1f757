/* stream.h: how the model sees its parameters: blocks lent and taken back, gradients handed over,
 * updates asked for. What stands behind it, memory or devices in any mode, changes no bit of what
 * is computed.
 *
 * A pass (stream_begin) uses blocks in an order that the model has said before
 * (offload/layout/route.h), and the stream reads ahead along it: acquire, grad and send_grad are
 * called in it, and a block is released before another one needs its frame. One thread calls all of
 * this; waiting happens only where it says so. After an error only stream_close is legal. */
#pragma once

#include "data/base/clock.h"
#include "kernels/optim.h"
#include "offload/devices/meter.h"
#include "offload/estimate/step_time.h"
#include "offload/gradient/grad_form.h"
#include "offload/layout/route.h"

struct stream_ops;
struct stream { // first member of every backend: stream_mem.c, stream_csd.c, stream_read.c
    const struct stream_ops *ops;
    struct meter *meter;   // where spans are recorded
    uint64_t      applied; // updates asked for so far: Adam's t of the next one is this plus 1
};

/* What an update needs and commit A records. skip: gradients were not finite; states stay. row.step
 * is the step, which began at began_ns (clock_ns): its row.seconds end when stream_update has asked
 * for the update. */
struct stream_step {
    struct runlog_step   row;
    struct optim_step    optim;
    int                  skip;
    uint64_t             began_ns;
    struct runlog_choice choice; // that was made for this step; layers 0: none
};

/* For backends: the training thread is done with a step, whose seconds these are. */
static inline double stream_step_over(struct stream *s, const struct stream_step *step)
{
    uint64_t now = clock_ns();

    meter_span(s->meter, step->row.step, PHASE_STEP, -1, -1, step->began_ns, now, 0);
    return (double)(now - step->began_ns) * 1e-9;
}

/* What activations on devices would cost beside the rest of a step, as far as it is modelled
 * (step_work.h: step_halves). buffers: how many items pass through. */
struct stream_work {
    int    may_offload;
    size_t buffers;
    struct step_move forward, backward, write, read;
};

/* The calls below, as a backend has them. One that only reads has none from grad to masters_end.
 * expect and release may be NULL where no use is made of them, masters_end where nothing is to be
 * done, push to work where there are no activations on devices, norm where send_grad knows all. */
struct params_source;
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
    void (*close)(struct stream *s);
};

static inline int stream_only_reads(struct err *err)
{
    return err_set(err, -ENOTSUP,
                   "this stream only reads: it can evaluate and generate, not train");
}

/* Announce the next pass, of step `step`: reads of its first blocks start as their updates end.
 * Does not wait. A stream that only reads refuses to train: -ENOTSUP. */
static inline int stream_begin(struct stream *s, enum stream_pass pass, uint64_t step,
                               struct err *err)
{
    return pass == STREAM_TRAIN && !s->ops->update ? stream_only_reads(err)
                                                   : s->ops->begin(s, pass, step, err);
}

/* In a training pass, before its first gradient: the numbers that stream_update will give if
 * nothing is clipped or skipped. Updates may begin with them; where stream_update gives others,
 * they are done again. May be left out. */
static inline void stream_expect(struct stream *s, const struct optim_step *optim)
{
    if (s->ops->expect)
        s->ops->expect(s, optim);
}

/* Wait for `block`'s update and its read, and lend its wire parameters (flat, 64-byte aligned,
 * of the run's dtype) until stream_release. */
static inline int stream_acquire(struct stream *s, size_t block, const void **wire, struct err *err)
{
    return s->ops->acquire(s, block, wire, err);
}

static inline void stream_release(struct stream *s, size_t block)
{
    if (s->ops->release)
        s->ops->release(s, block);
}

/* Lend the fp32 gradient of `block`, flat, that a group of the step's micro-batches has (of this
 * rank's groups, from 0; ranks.h); the same buffer until it is sent. *fresh: 1 when first asked for
 * in a step; its values are undefined then, and whoever asked writes all of them. Every group is
 * asked for before the gradient is sent. May wait for a buffer to become free. */
static inline int stream_grad(struct stream *s, size_t block, size_t group, float **grad,
                              int *fresh, struct err *err)
{
    return s->ops->grad ? s->ops->grad(s, block, group, grad, fresh, err) : stream_only_reads(err);
}

/* The gradient is complete: add its groups, and its sum of squares and NaN/Inf flag to *norm,
 * compress it, start writing it to its devices; where there are other ranks, to them. */
static inline int stream_send_grad(struct stream *s, size_t block, struct norm_sum *norm,
                                   struct err *err)
{
    return s->ops->send_grad ? s->ops->send_grad(s, block, norm, err) : stream_only_reads(err);
}

/* All gradients were sent: *norm is of all of them then. Where there are other ranks it waits for
 * theirs. */
static inline int stream_norm_end(struct stream *s, struct norm_sum *norm, struct err *err)
{
    return s->ops->norm ? s->ops->norm(s, norm, err) : 0;
}

/* A stack on the devices, for the activations that a training pass's forward leaves to its
 * backward: where the run's configuration has acts, else not to be called. A record is a row of
 * items, which may differ in size. Records are popped in the reverse order, the items of one in
 * the order in which they were pushed. At most one item is lent at a time.
 *
 * push lends the place of the next item, 64-byte aligned, of as many bytes as the configuration
 * says, and may wait until earlier ones are written; first: the item begins a record. pushed:
 * `bytes` of it, at least one, are filled, and this pass pushes `left` more items. pop lends the
 * next item as it was pushed, and may wait until it is read; popped: it is done with. A pass that
 * pushed pushes all before it pops, and pops all before stream_update. Which items never leave
 * memory is a rule (offload/layout/act_rule.h). */
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

/* Between passes: nothing is pushed for now. What items pass through takes no memory till then. */
static inline void stream_rest(struct stream *s)
{
    if (s->ops->rest)
        s->ops->rest(s);
}

/* Zero where nothing can be offloaded. */
static inline int stream_work(struct stream *s, struct stream_work *out, struct err *err)
{
    *out = (struct stream_work){ 0 };
    return s->ops->work ? s->ops->work(s, out, err) : 0;
}

/* All gradients were sent: update, block 0 first, and beside it commit A as soon as they are
 * durable. Does not wait. Where an update leaves elements as they were, since they would have
 * become too large or NaN (kernels/bounds.h), its step is committed nevertheless, and then one of
 * the calls after it says so and fails, -EDOM: the next stream_update or stream_drain at the
 * latest. */
static inline int stream_update(struct stream *s, const struct stream_step *step, struct err *err)
{
    return s->ops->update ? s->ops->update(s, step, err) : stream_only_reads(err);
}

/* Wait until everything asked for is done and committed. */
static inline int stream_drain(struct stream *s, struct err *err)
{
    return s->ops->drain ? s->ops->drain(s, err) : 0;
}

/* fp32 masters of a drained stream (in mem: between any two steps), for an export: until
 * stream_masters_end no other call. What is read counts as the evaluation of `step`. Streams that
 * only read have none. */
static inline int stream_masters(struct stream *s, uint64_t step, struct params_source *out,
                                 struct err *err)
{
    return s->ops->masters(s, step, out, err);
}

static inline int stream_masters_end(struct stream *s, struct err *err)
{
    return s->ops->masters_end ? s->ops->masters_end(s, err) : 0;
}

/* NULL is fine; does not commit what is not committed. */
static inline void stream_close(struct stream *s)
{
    if (s)
        s->ops->close(s);
}
