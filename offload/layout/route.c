/* route.c: answers questions about the order of passes: which block comes when, in which buffer it
 * is, and what is read. Runs and lanes are few, so every answer is counted from them; nothing is
 * kept. A run of two lanes in step is the one lane's blocks with the other's between them. */
#include "offload/layout/route.h"

#include "data/base/round.h"

#include <assert.h>

static struct route_span lane_blocks(const struct route *o, size_t lane)
{
    size_t first = 0;

    for (size_t i = 0; i < lane; i++)
        first += o->lanes[i].n;
    return (struct route_span){ first, first + o->lanes[lane].n };
}

size_t route_blocks(const struct route *o) { return lane_blocks(o, ROUTE_LANES - 1).end; }

static size_t lane_of(const struct route *o, size_t block)
{
    size_t lane = 0;

    assert(block < route_blocks(o));
    while (block >= lane_blocks(o, lane).end)
        lane++;
    return lane;
}

/* ---- uses */

/* The run behind r in its pass, or NULL. With r NULL, the first run. */
static const struct route_run *run_next(const struct route *o, enum stream_pass pass,
                                        const struct route_run *r)
{
    r = r ? r + 1 : o->runs[pass];
    return r < o->runs[pass] + ROUTE_RUNS && r->uses ? r : NULL;
}

/* How a run uses a lane; 0: not at all. */
static unsigned uses_of(const struct route_run *r, size_t lane)
{
    return (r->lane == lane ? r->uses : 0) | (r->with == lane ? r->uses_with : 0);
}

/* Whether any run of training uses a lane in one of these ways. */
static int lane_used(const struct route *o, size_t lane, unsigned uses)
{
    for (const struct route_run *r = run_next(o, STREAM_TRAIN, NULL); r;
         r = run_next(o, STREAM_TRAIN, r))
        if (uses_of(r, lane) & uses)
            return 1;
    return 0;
}

size_t route_uses(const struct route *o, enum stream_pass pass, enum route_use use)
{
    size_t n = 0;

    for (const struct route_run *r = run_next(o, pass, NULL); r; r = run_next(o, pass, r)) {
        n += r->uses & use ? o->lanes[r->lane].n : 0;
        n += r->uses_with & use ? o->lanes[r->with].n : 0;
    }
    return n;
}

/* The i-th use of the pass that is of any kind in `uses`. */
static struct route_at use_at(const struct route *o, enum stream_pass pass, unsigned uses, size_t i)
{
    for (const struct route_run *r = run_next(o, pass, NULL); r; r = run_next(o, pass, r)) {
        size_t each = (size_t)!!(r->uses & uses) + (size_t)!!(r->uses_with & uses);
        size_t n = each * o->lanes[r->lane].n;

        if (i >= n) {
            i -= n;
            continue;
        }
        int               with = !(r->uses & uses) || i % each;
        struct route_span at = lane_blocks(o, with ? r->with : r->lane);

        i /= each;
        return (struct route_at){ r->way == ROUTE_UP ? at.first + i : at.end - 1 - i,
                                  with ? r->uses_with : r->uses };
    }
    return (struct route_at){ 0, 0 };
}

struct route_at route_at(const struct route *o, enum stream_pass pass, size_t i)
{
    return use_at(o, pass, ROUTE_READ | ROUTE_ADD | ROUTE_SEND, i);
}

size_t route_block(const struct route *o, enum stream_pass pass, enum route_use use, size_t i)
{
    struct route_at at = use_at(o, pass, use, i);

    assert(at.uses);
    return at.block;
}

size_t route_last(const struct route *o)
{
    return route_block(o, STREAM_TRAIN, ROUTE_SEND, route_uses(o, STREAM_TRAIN, ROUTE_SEND) - 1);
}

int route_once(const struct route *o, size_t block)
{
    size_t lane = lane_of(o, block), added = 0;
    int    sends = 0;

    for (const struct route_run *r = run_next(o, STREAM_TRAIN, NULL); r;
         r = run_next(o, STREAM_TRAIN, r)) {
        if (!(uses_of(r, lane) & ROUTE_ADD))
            continue;
        added++;
        sends = (uses_of(r, lane) & ROUTE_SEND) != 0;
    }
    return added == 1 && sends;
}

int route_trains(const struct route *o, size_t block)
{
    return lane_used(o, lane_of(o, block), ROUTE_SEND);
}

/* ---- buffers */

static size_t lane_buffers(const struct route *o, size_t lane, enum route_kind kind, size_t shared)
{
    const struct route_lane *l = &o->lanes[lane];

    if (kind == ROUTE_GRADS && !lane_used(o, lane, ROUTE_ADD))
        return 0;
    return size_min(l->n, l->buffers[kind] ? l->buffers[kind] : shared);
}

static size_t buffers_before(const struct route *o, size_t lane, enum route_kind kind,
                             size_t shared)
{
    size_t n = 0;

    for (size_t i = 0; i < lane; i++)
        n += lane_buffers(o, i, kind, shared);
    return n;
}

static size_t lane_of_buffer(const struct route *o, enum route_kind kind, size_t shared, size_t i)
{
    size_t lane = 0;

    while (i >= buffers_before(o, lane + 1, kind, shared))
        lane++;
    return lane;
}

size_t route_buffers(const struct route *o, enum route_kind kind, size_t shared)
{
    return buffers_before(o, ROUTE_LANES, kind, shared);
}

size_t route_buffer(const struct route *o, enum route_kind kind, size_t shared, size_t block)
{
    size_t lane = lane_of(o, block), n = lane_buffers(o, lane, kind, shared);

    assert(n > 0);
    return buffers_before(o, lane, kind, shared) + (block - lane_blocks(o, lane).first) % n;
}

struct route_span route_buffer_blocks(const struct route *o, enum route_kind kind, size_t shared,
                                      size_t i)
{
    assert(i < route_buffers(o, kind, shared));
    return lane_blocks(o, lane_of_buffer(o, kind, shared, i));
}

size_t route_buffers_alike(const struct route *o, enum route_kind kind, size_t shared, size_t i)
{
    if (i >= route_buffers(o, kind, shared))
        return 0;
    return buffers_before(o, lane_of_buffer(o, kind, shared, i) + 1, kind, shared) - i;
}

struct route_span route_first(const struct route *o)
{
    return lane_blocks(o, o->runs[STREAM_TRAIN][0].lane);
}

struct route_span route_shared(const struct route *o)
{
    for (size_t lane = 0; lane < ROUTE_LANES; lane++)
        if (o->lanes[lane].n && !o->lanes[lane].buffers[ROUTE_FRAMES])
            return lane_blocks(o, lane);
    return (struct route_span){ 0, 0 };
}

/* ---- what is read */

/* One frame of a lane: every `step`-th block from `first` on passes through it. */
struct passing { size_t lane, first, step, holds; };

/* Adds what a pass reads into the frame. */
static void frame_reads(struct route_reads *sum, struct passing *f, const struct route *o,
                        enum stream_pass pass, const size_t *params)
{
    size_t end = lane_blocks(o, f->lane).end, n = div_up(end - f->first, f->step);

    for (const struct route_run *r = run_next(o, pass, NULL); r; r = run_next(o, pass, r))
        for (size_t k = 0; uses_of(r, f->lane) & ROUTE_READ && k < n; k++) {
            size_t block = f->first + (r->way == ROUTE_UP ? k : n - 1 - k) * f->step;

            if (f->holds == block)
                continue;
            f->holds = block;
            sum->blocks++;
            sum->params += params[block];
        }
}

struct route_reads route_reads(const struct route *o, enum stream_pass pass, size_t frames,
                               const size_t *params, int again)
{
    struct route_reads all = { 0 };

    for (size_t lane = 0; lane < ROUTE_LANES; lane++) {
        size_t step = lane_buffers(o, lane, ROUTE_FRAMES, frames);

        assert(step > 0 || o->lanes[lane].n == 0);
        for (size_t i = 0; i < step; i++) {
            struct passing     f = { lane, lane_blocks(o, lane).first + i, step, SIZE_MAX };
            struct route_reads before = { 0 };

            if (again)
                frame_reads(&before, &f, o, pass, params);
            frame_reads(&all, &f, o, pass, params);
        }
    }
    return all;
}

/* ---- orders that cannot be */

/* Whether a run's two lanes are both first read in it, and are both trained or both frozen: each
 * has blocks between those of the other. done: bits of the lanes read before. */
static int in_step_alike(const struct route *o, const struct route_run *r, unsigned done)
{
    return r->uses & r->uses_with & ROUTE_READ && !(done >> r->lane & 1) &&
           !(done >> r->with & 1) && o->lanes[r->lane].n > 1 &&
           lane_used(o, r->lane, ROUTE_SEND) == lane_used(o, r->with, ROUTE_SEND);
}

/* Whether training first reads each trained block after the trained one before it, and each frozen
 * block after the frozen one before it. */
static int numbered(const struct route *o)
{
    size_t   next[2] = { 0 }; // the lowest lane that may be read now; [1]: of those that train
    unsigned done = 0;        // bits of lanes

    for (const struct route_run *r = run_next(o, STREAM_TRAIN, NULL); r;
         r = run_next(o, STREAM_TRAIN, r)) {
        unsigned before = done;

        for (size_t lane = 0; lane < ROUTE_LANES; lane++) {
            int trains = lane_used(o, lane, ROUTE_SEND);

            if (!(uses_of(r, lane) & ROUTE_READ) || before >> lane & 1 || !o->lanes[lane].n)
                continue;
            if (lane < next[trains] || r->way != ROUTE_UP)
                return 0;
            next[trains] = lane + 1;
            done |= 1u << lane;
        }
        if (in_step_alike(o, r, before))
            return 0;
    }
    for (size_t lane = 0; lane < ROUTE_LANES; lane++)
        if (o->lanes[lane].n && !(done >> lane & 1))
            return 0;
    return 1;
}

/* What is wrong with the use of a lane's gradients in training, or NULL. A frozen lane has none. */
static const char *gradients_fault(const struct route *o, size_t lane)
{
    size_t      added = 0, sent = 0;
    const char *again = "a block is read after its gradient was sent";

    for (const struct route_run *r = run_next(o, STREAM_TRAIN, NULL); r;
         r = run_next(o, STREAM_TRAIN, r)) {
        unsigned uses = uses_of(r, lane);

        if (!uses)
            continue;
        added += (uses & ROUTE_ADD) != 0;
        if (sent)
            return uses & ROUTE_READ ? again : "a gradient is added to after it was sent";
        sent += (uses & ROUTE_SEND) != 0;
    }
    if ((added || sent) && (!added || sent != 1))
        return "a gradient is not sent once";
    if (added > 1 && lane_buffers(o, lane, ROUTE_GRADS, 1) < o->lanes[lane].n)
        return "gradients wait to be sent, and have no buffers to wait in";
    return NULL;
}

/* What is wrong with a pass, or NULL. */
static const char *pass_fault(const struct route *o, enum stream_pass pass)
{
    for (const struct route_run *r = run_next(o, pass, NULL); r; r = run_next(o, pass, r))
        if (r->uses_with && (r->with == r->lane || o->lanes[r->with].n != o->lanes[r->lane].n))
            return "two lanes that move together are not two of equal length";
    if (pass != STREAM_TRAIN && (route_uses(o, pass, ROUTE_ADD) || route_uses(o, pass, ROUTE_SEND)))
        return "gradients are made outside of training";
    return NULL;
}

const char *route_fault(const struct route *o)
{
    const char *fault = route_blocks(o) ? NULL : "there are no blocks";

    for (enum stream_pass p = 0; p < STREAM_PASSES && !fault; p++)
        fault = pass_fault(o, p);
    if (!fault && !route_uses(o, STREAM_TRAIN, ROUTE_SEND))
        fault = "no gradient is sent: nothing is trained";
    if (!fault && !numbered(o))
        fault = "blocks are not numbered as training first reads them";
    for (size_t lane = 0; lane < ROUTE_LANES && !fault; lane++)
        fault = o->lanes[lane].n ? gradients_fault(o, lane) : NULL;
    return fault;
}
