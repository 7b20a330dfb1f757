/* frames.c: parameters, read ahead of the model. */
#include "offload/frames.h"

#include "data/base/round.h"

#include <assert.h>

size_t frames_bytes(const struct store *st, struct order_span of)
{
    size_t most = 0;

    for (size_t b = of.first; b < of.end; b++)
        most = size_max(most, store_wire_bytes(st, store_pad(st->block_params[b])));
    return most;
}

void frames_tables(struct frames *f, const struct store *st, struct arena *a)
{
    f->n_frames = order_buffers(&f->hub->cfg.order, ORDER_FRAMES, f->hub->cfg.frames);
    f->frames = arena_take(a, f->n_frames * sizeof *f->frames);
    f->shards = arena_take(a, f->n_frames * st->n_devices * sizeof *f->shards);
    f->reads = arena_take(a, st->n_subs * sizeof *f->reads);
}

void frames_lay(struct frames *f, const struct store *st, struct arena *a)
{
    const struct run_config *cfg = &f->hub->cfg;

    for (size_t i = 0; i < f->n_frames; i++) {
        struct order_span of = order_buffer_blocks(&cfg->order, ORDER_FRAMES, cfg->frames, i);

        f->frames[i] = (struct frame){ .block = SIZE_MAX, .shards = f->shards + i * st->n_devices,
                                       .wire = arena_take(a, frames_bytes(st, of)) };
    }
}

static struct frame *frame_of(const struct frames *f, size_t block)
{
    const struct run_config *cfg = &f->hub->cfg;

    return &f->frames[order_buffer(&cfg->order, ORDER_FRAMES, cfg->frames, block)];
}

/* The i-th block that the pass reads. */
static size_t block_at(const struct frames *f, size_t i)
{
    return order_block(&f->hub->cfg.order, f->pass, ORDER_READ, i);
}

/* ---- the model's side */

void frames_begin(struct frames *f, enum stream_pass pass, uint64_t version)
{
    assert(f->next_acquire == f->n_uses); // the pass before is through
    // a training pass reads every parameter anew, even after an evaluation or a skip: each step
    // moves what the table says
    for (size_t i = 0; pass == STREAM_TRAIN && i < f->n_frames; i++)
        f->frames[i].block = SIZE_MAX;
    f->pass = pass;
    f->version = version;
    f->n_uses = order_uses(&f->hub->cfg.order, pass, ORDER_READ);
    f->next_read = f->next_acquire = 0;
}

/* A drive serves in turn all that it is asked for: what is read further ahead keeps the model
 * waiting for what it needs next, be it a read, a gradient's write or block 0's update. */
static int reads_enough(const struct frames *f)
{
    enum { AHEAD_BLOCKS = 2, AHEAD_BYTES = 64 << 20 };
    size_t bytes = f->hub->cfg.read_ahead ? f->hub->cfg.read_ahead : AHEAD_BYTES;

    return f->next_read >= f->next_acquire + AHEAD_BLOCKS && f->unread_bytes >= bytes;
}

/* What a block's parameters wait for: their update, then their read. */
static enum runlog_phase waits_for(const struct frames *f, size_t block)
{
    if (f->pass != STREAM_TRAIN)
        return PHASE_WAIT_EVAL;
    return subs_all(f->subs, block, f->version, 0) ? PHASE_WAIT_PARAMS : PHASE_WAIT_UPDATE;
}

int frames_acquire(struct frames *f, size_t block, const void **wire, struct err *err)
{
    struct frame   *at = frame_of(f, block);
    struct hub_wait wait = { .block = (int)block };

    hub_enter(f->hub);
    assert(f->next_acquire < f->n_uses && block_at(f, f->next_acquire) == block);
    while ((f->next_read <= f->next_acquire || at->unread > 0) &&
           hub_wait(f->hub, &wait, waits_for(f, block)))
        ;
    int held_back = reads_enough(f);
    f->next_acquire++;
    *wire = at->wire;
    hub_waited(f->hub, &wait);
    return hub_leave(f->hub, held_back, err);
}

void frames_release(struct frames *f, size_t block) { frame_of(f, block)->users--; }

/* ---- the scheduler's side */

static void read_done(void *part, struct task *t)
{
    struct frames          *f = part;
    const struct store     *st = &f->hub->dev.store;
    const struct store_sub *u = &st->subs[t->sub];

    frame_of(f, u->block)->unread--;
    f->unread_bytes -= store_wire_bytes(st, u->n);
}

static void read_submit(struct frames *f, const struct frame *at, size_t i)
{
    static const struct task_kind kind = { TASK_OF_SUBGROUP, read_done, "wire parameters", "are" };
    const struct store       *st = &f->hub->dev.store;
    const struct store_sub   *u = &st->subs[i];
    const struct sub_wire    *wire = &f->subs->sub[i].wire;

    f->reads[i] = (struct task){
        .kind = &kind, .part = f, .sub = i, .step = f->hub->step,
        .phase = f->pass == STREAM_TRAIN ? PHASE_PARAM_READ : PHASE_EVAL,
        .job = { .kind = CSD_READ, .cls = CLASS_WIRE,
                 .buf = (char *)at->wire + store_wire_bytes(st, u->first),
                 .off = store_slot_off(st, u->class_, wire->slot) +
                        store_state_bytes(st, u->n_pad),
                 .bytes = store_wire_bytes(st, u->n_pad), .payload = store_wire_bytes(st, u->n),
                 .tag = wire->crc },
    };
    hub_submit(f->hub, u->device, &f->reads[i]);
}

/* Read on into a frame: its block's subgroups whose wire is there by now, whichever device is
 * ahead. */
static int frame_read(struct frames *f, struct frame *at)
{
    size_t before = at->unasked;

    for (size_t d = 0; at->unasked > 0 && d < f->hub->dev.n; d++)
        for (struct shard_read *r = &at->shards[d]; r->next < r->end; r->next++, at->unasked--) {
            if (f->subs->sub[r->next].wire.version < at->version)
                break;
            read_submit(f, at, r->next);
        }
    return at->unasked != before;
}

/* Nothing that a frame holds is used any more: it is for another block. */
static void frame_begin(struct frames *f, struct frame *at, size_t block)
{
    const struct store *st = &f->hub->dev.store;
    size_t              first = st->block_sub[block], end = st->block_sub[block + 1];

    at->block = block;
    at->version = f->version;
    at->unread = at->unasked = end - first;
    at->users = 1;
    for (size_t d = 0; d < st->n_devices; d++) { // each device's lie together
        at->shards[d].next = first;
        while (first < end && st->subs[first].device == d)
            first++;
        at->shards[d].end = first;
    }
    f->unread_bytes += store_wire_bytes(st, st->block_params[block]);
}

/* Give frames to the pass's next uses, in order, as far as they are free. */
int frames_advance(struct frames *f)
{
    int progress = 0;

    for (; f->next_read < f->n_uses && !reads_enough(f); f->next_read++) {
        size_t        block = block_at(f, f->next_read);
        struct frame *at = frame_of(f, block);

        if (at->block == block && at->version == f->version) { // still there
            at->users++;
        } else {
            if (at->users > 0 || at->unread > 0)
                break;
            frame_begin(f, at, block);
        }
        progress = 1;
    }
    for (size_t i = 0; i < f->n_frames; i++)
        progress |= frame_read(f, &f->frames[i]);
    return progress;
}
