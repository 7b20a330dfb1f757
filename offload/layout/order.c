/* order.c: what follows from the order of passes. Runs and lanes are few, so everything is counted
 * from them each time; nothing is kept. */
#include "offload/layout/order.h"

#include "data/base/round.h"

#include <assert.h>

static struct order_span lane_blocks(const struct order *o, size_t lane)
{
    size_t first = 0;

    for (size_t i = 0; i < lane; i++)
        first += o->lanes[i].n;
    return (struct order_span){ first, first + o->lanes[lane].n };
}

size_t order_blocks(const struct order *o) { return lane_blocks(o, ORDER_LANES - 1).end; }

static size_t lane_of(const struct order *o, size_t block)
{
    size_t lane = 0;

    assert(block < order_blocks(o));
    while (block >= lane_blocks(o, lane).end)
        lane++;
    return lane;
}

/* ---- uses */

/* The run behind r of its pass, or NULL; the first one for r NULL. */
static const struct order_run *run_next(const struct order *o, enum stream_pass pass,
                                        const struct order_run *r)
{
    r = r ? r + 1 : o->runs[pass];
    return r < o->runs[pass] + ORDER_RUNS && r->uses ? r : NULL;
}

size_t order_uses(const struct order *o, enum stream_pass pass, enum order_use use)
{
    size_t n = 0;

    for (const struct order_run *r = run_next(o, pass, NULL); r; r = run_next(o, pass, r))
        n += r->uses & use ? o->lanes[r->lane].n : 0;
    return n;
}

/* The i-th use that has any of `uses`. */
static struct order_at use_at(const struct order *o, enum stream_pass pass, unsigned uses, size_t i)
{
    for (const struct order_run *r = run_next(o, pass, NULL); r; r = run_next(o, pass, r)) {
        struct order_span at = lane_blocks(o, r->lane);
        size_t            n = r->uses & uses ? at.end - at.first : 0;

        if (i < n)
            return (struct order_at){ r->way == ORDER_UP ? at.first + i : at.end - 1 - i, r->uses };
        i -= n;
    }
    return (struct order_at){ 0, 0 };
}

struct order_at order_at(const struct order *o, enum stream_pass pass, size_t i)
{
    return use_at(o, pass, ORDER_READ | ORDER_ADD | ORDER_SEND, i);
}

size_t order_block(const struct order *o, enum stream_pass pass, enum order_use use, size_t i)
{
    struct order_at at = use_at(o, pass, use, i);

    assert(at.uses);
    return at.block;
}

size_t order_last(const struct order *o)
{
    return order_block(o, STREAM_TRAIN, ORDER_SEND, order_uses(o, STREAM_TRAIN, ORDER_SEND) - 1);
}

int order_once(const struct order *o, size_t block)
{
    size_t lane = lane_of(o, block), added = 0;
    int    sends = 0;

    for (const struct order_run *r = run_next(o, STREAM_TRAIN, NULL); r;
         r = run_next(o, STREAM_TRAIN, r)) {
        if (r->lane != lane || !(r->uses & ORDER_ADD))
            continue;
        added++;
        sends = (r->uses & ORDER_SEND) != 0;
    }
    return added == 1 && sends;
}

/* ---- buffers */

static size_t lane_buffers(const struct order *o, size_t lane, enum order_kind kind, size_t shared)
{
    const struct order_lane *l = &o->lanes[lane];

    return size_min(l->n, l->buffers[kind] ? l->buffers[kind] : shared);
}

static size_t buffers_before(const struct order *o, size_t lane, enum order_kind kind,
                             size_t shared)
{
    size_t n = 0;

    for (size_t i = 0; i < lane; i++)
        n += lane_buffers(o, i, kind, shared);
    return n;
}

size_t order_buffers(const struct order *o, enum order_kind kind, size_t shared)
{
    return buffers_before(o, ORDER_LANES, kind, shared);
}

size_t order_buffer(const struct order *o, enum order_kind kind, size_t shared, size_t block)
{
    size_t lane = lane_of(o, block), n = lane_buffers(o, lane, kind, shared);

    assert(n > 0);
    return buffers_before(o, lane, kind, shared) + (block - lane_blocks(o, lane).first) % n;
}

struct order_span order_buffer_blocks(const struct order *o, enum order_kind kind, size_t shared,
                                      size_t i)
{
    size_t lane = 0;

    assert(i < order_buffers(o, kind, shared));
    while (i >= buffers_before(o, lane + 1, kind, shared))
        lane++;
    return lane_blocks(o, lane);
}

struct order_span order_first(const struct order *o)
{
    return lane_blocks(o, o->runs[STREAM_TRAIN][0].lane);
}

struct order_span order_shared(const struct order *o)
{
    for (size_t lane = 0; lane < ORDER_LANES; lane++)
        if (o->lanes[lane].n && !o->lanes[lane].buffers[ORDER_FRAMES])
            return lane_blocks(o, lane);
    return (struct order_span){ 0, 0 };
}

/* ---- what is read */

/* One frame, through which every `step`-th block of a lane passes from `first` on. */
struct passing { size_t lane, first, step, holds; };

/* What a pass reads into it. */
static void frame_reads(struct order_reads *sum, struct passing *f, const struct order *o,
                        enum stream_pass pass, const size_t *params)
{
    size_t end = lane_blocks(o, f->lane).end, n = div_up(end - f->first, f->step);

    for (const struct order_run *r = run_next(o, pass, NULL); r; r = run_next(o, pass, r))
        for (size_t k = 0; r->lane == f->lane && r->uses & ORDER_READ && k < n; k++) {
            size_t block = f->first + (r->way == ORDER_UP ? k : n - 1 - k) * f->step;

            if (f->holds == block)
                continue;
            f->holds = block;
            sum->blocks++;
            sum->params += params[block];
        }
}

struct order_reads order_reads(const struct order *o, enum stream_pass pass, size_t frames,
                               const size_t *params, int again)
{
    struct order_reads all = { 0 };

    for (size_t lane = 0; lane < ORDER_LANES; lane++) {
        size_t step = lane_buffers(o, lane, ORDER_FRAMES, frames);

        assert(step > 0 || o->lanes[lane].n == 0);
        for (size_t i = 0; i < step; i++) {
            struct passing     f = { lane, lane_blocks(o, lane).first + i, step, SIZE_MAX };
            struct order_reads before = { 0 };

            if (again)
                frame_reads(&before, &f, o, pass, params);
            frame_reads(&all, &f, o, pass, params);
        }
    }
    return all;
}

/* ---- what cannot be */

/* In training each block is first read behind the one before it. */
static int numbered(const struct order *o)
{
    size_t next = 0; // lane

    for (const struct order_run *r = run_next(o, STREAM_TRAIN, NULL); r;
         r = run_next(o, STREAM_TRAIN, r)) {
        while (next < ORDER_LANES && !o->lanes[next].n)
            next++;
        if (!(r->uses & ORDER_READ) || r->lane < next || !o->lanes[r->lane].n)
            continue;
        if (r->lane != next || r->way != ORDER_UP)
            return 0;
        next++;
    }
    while (next < ORDER_LANES && !o->lanes[next].n)
        next++;
    return next == ORDER_LANES;
}

/* Of a lane's gradients in training. */
static const char *gradients_fault(const struct order *o, size_t lane)
{
    size_t      added = 0, sent = 0;
    const char *again = "a block is read after its gradient was sent";

    for (const struct order_run *r = run_next(o, STREAM_TRAIN, NULL); r;
         r = run_next(o, STREAM_TRAIN, r)) {
        if (r->lane != lane)
            continue;
        added += (r->uses & ORDER_ADD) != 0;
        if (sent)
            return r->uses & ORDER_READ ? again : "a gradient is added to after it was sent";
        sent += (r->uses & ORDER_SEND) != 0;
    }
    if (!added || sent != 1)
        return "a gradient is not sent once";
    if (added > 1 && lane_buffers(o, lane, ORDER_GRADS, 1) < o->lanes[lane].n)
        return "gradients wait to be sent, and have no buffers to wait in";
    return NULL;
}

const char *order_fault(const struct order *o)
{
    const char *fault = order_blocks(o) ? NULL : "there are no blocks";

    if (!fault && !numbered(o))
        fault = "blocks are not numbered as training first reads them";
    for (size_t lane = 0; lane < ORDER_LANES && !fault; lane++)
        fault = o->lanes[lane].n ? gradients_fault(o, lane) : NULL;
    for (enum stream_pass p = STREAM_EVAL; p < STREAM_PASSES && !fault; p++)
        if (order_uses(o, p, ORDER_ADD) || order_uses(o, p, ORDER_SEND))
            fault = "gradients are made outside of training";
    return fault;
}
