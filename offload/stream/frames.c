/* frames.c: reads parameters from devices into frames, ahead of the model, and lends them to it. */
#include "offload/stream/frames.h"

#include "data/base/clock.h"
#include "data/base/round.h"

#include <assert.h>

size_t frames_bytes(const struct run_config *cfg, struct route_span of)
{
    size_t most = 0;

    for (size_t b = of.first; b < of.end; b++)
        most = size_max(most, dtype_bytes(cfg->wire_dt) * store_pad(run_whole(cfg, b)));
    return most;
}

void frames_tables(struct frames *f, const struct store *st, struct arena *a)
{
    f->n_frames = route_buffers(&f->sched->cfg.route, ROUTE_FRAMES, f->sched->cfg.frames);
    f->frames = arena_take(a, f->n_frames * sizeof *f->frames);
    f->shards = arena_take(a, f->n_frames * st->n_devices * sizeof *f->shards);
    f->reads = arena_take(a, st->n_subs * sizeof *f->reads);
    f->partial = arena_take(a, f->n_frames * sizeof *f->partial);
    f->at = arena_take(a, (f->sched->cfg.ranks.size + 1) * sizeof *f->at);
}

void frames_lay(struct frames *f, const struct store *st, struct arena *a)
{
    const struct run_config *cfg = &f->sched->cfg;

    for (size_t i = 0; i < f->n_frames; i++) {
        struct route_span of = route_buffer_blocks(&cfg->route, ROUTE_FRAMES, cfg->frames, i);

        f->frames[i] = (struct frame){ .block = SIZE_MAX, .shards = f->shards + i * st->n_devices,
                                       .wire = arena_take(a, frames_bytes(cfg, of)) };
    }
}

int frames_open(struct frames *f, struct err *err)
{
    const struct run_config *cfg = &f->sched->cfg;

    return cfg->base ? base_reader_open(&f->base, cfg, &f->sched->dev.bell, err) : 0;
}

int frames_close(struct frames *f) { return base_reader_close(f->base); }

uint64_t frames_rest_ns(const struct frames *f)
{
    return f->base ? base_reader_rest_ns(f->base) : UINT64_MAX;
}

static struct frame *frame_of(const struct frames *f, size_t block)
{
    const struct run_config *cfg = &f->sched->cfg;

    return &f->frames[route_buffer(&cfg->route, ROUTE_FRAMES, cfg->frames, block)];
}

/* The i-th block that the pass reads. */
static size_t block_at(const struct frames *f, size_t i)
{
    return route_block(&f->sched->cfg.route, f->pass, ROUTE_READ, i);
}

/* ---- the model's side */

void frames_begin(struct frames *f, enum stream_pass pass, uint64_t version)
{
    assert(f->next_acquire == f->n_uses); // the pass before has ended
    // A training pass reads all parameters anew, even after an evaluation or a skipped step, so
    // that each step moves the bytes of the table (traffic.h).
    for (size_t i = 0; pass == STREAM_TRAIN && i < f->n_frames; i++)
        f->frames[i].block = SIZE_MAX;
    f->pass = pass;
    f->version = version;
    f->n_uses = route_uses(&f->sched->cfg.route, pass, ROUTE_READ);
    f->next_read = f->next_acquire = 0;
}

/* Whether enough is being read. A drive serves requests in turn: reading further ahead would delay
 * what the model needs next, be it a read, a gradient's write or block 0's update. */
static int reads_enough(const struct frames *f)
{
    enum { AHEAD_BLOCKS = 2, AHEAD_BYTES = 64 << 20 };
    size_t bytes = f->sched->cfg.read_ahead ? f->sched->cfg.read_ahead : AHEAD_BYTES;

    return f->next_read >= f->next_acquire + AHEAD_BLOCKS && f->unread_bytes >= bytes;
}

/* The phase to which waiting for a block counts: first its update, then its read. */
static enum runlog_phase waits_for(const struct frames *f, size_t block)
{
    if (f->pass != STREAM_TRAIN)
        return PHASE_WAIT_EVAL;
    return subs_all(f->subs, block, f->version, 0) ? PHASE_WAIT_PARAMS : PHASE_WAIT_UPDATE;
}

int frames_acquire(struct frames *f, size_t block, const void **wire, struct err *err)
{
    struct frame   *at = frame_of(f, block);
    struct scheduler_wait wait = { .block = (int)block };

    scheduler_lock(f->sched);
    assert(f->next_acquire < f->n_uses && block_at(f, f->next_acquire) == block);
    while ((f->next_read <= f->next_acquire || at->unread > 0 || at->partial) &&
           scheduler_wait(f->sched, &wait, waits_for(f, block)))
        ;
    int held_back = reads_enough(f);
    f->next_acquire++;
    *wire = at->wire;
    scheduler_waited(f->sched, &wait);
    return scheduler_unlock(f->sched, held_back, err);
}

void frames_release(struct frames *f, size_t block) { frame_of(f, block)->users--; }

/* ---- the scheduler's side */

static void read_done(void *part, struct task *t)
{
    struct frames          *f = part;
    const struct store     *st = &f->sched->dev.store;
    const struct store_sub *u = &st->subs[t->sub];

    frame_of(f, u->block)->unread--;
    f->unread_bytes -= store_wire_bytes(st, u->n);
}

static void read_submit(struct frames *f, const struct frame *at, size_t i)
{
    static const struct task_kind kind = { TASK_OF_SUBGROUP, read_done, "wire parameters", "are" };
    const struct store       *st = &f->sched->dev.store;
    const struct store_sub   *u = &st->subs[i];
    const struct sub_wire    *wire = &f->subs->sub[i].wire;

    f->reads[i] = (struct task){
        .kind = &kind, .part = f, .sub = i, .step = f->sched->step,
        .phase = f->pass == STREAM_TRAIN ? PHASE_PARAM_READ : PHASE_EVAL,
        .job = { .kind = CSD_READ, .cls = CLASS_WIRE,
                 .buf = (char *)at->wire +
                        store_wire_bytes(st, run_first(&f->sched->cfg, at->block) + u->first),
                 .off = store_slot_off(st, u->class_, wire->slot) +
                        store_states_of(st, u),
                 .bytes = store_wire_bytes(st, u->n_pad), .payload = store_wire_bytes(st, u->n),
                 .tag = wire->crc },
    };
    scheduler_submit(f->sched, u->device, &f->reads[i]);
}

/* Asks for this rank's portion of a block in place. */
static void base_submit(struct frames *f, struct frame *at)
{
    const struct run_config *cfg = &f->sched->cfg;
    size_t                   first = run_first(cfg, at->block);

    at->unasked = 0;
    at->base = (struct base_request){ .block = at->block, .first = first,
                                      .n = cfg->block_params[at->block],
                                      .to = dtype_at(at->wire, cfg->wire_dt, first) };
    base_reader_ask(f->base, &at->base);
}

/* Takes what was read of blocks in place. 1: there was anything; or -errno. */
static int base_take(struct frames *f, struct err *err)
{
    int                  place = scheduler_files(f->sched), took = 0;
    enum runlog_phase    phase = f->pass == STREAM_TRAIN ? PHASE_PARAM_READ : PHASE_EVAL;
    struct base_request *q;

    for (; f->base && (q = base_reader_take(f->base)); took = 1) {
        if (q->status) {
            if (err)
                *err = q->why;
            return q->status;
        }
        meter_traffic(f->sched->meter, f->sched->step, phase, place, &q->meter);
        meter_span(f->sched->meter, f->sched->step, phase, (int)q->block, place, q->start_ns,
                   q->end_ns, q->meter.bytes[LINK_FILES][CLASS_BASE][LINK_READ]);
        frame_of(f, q->block)->unread = 0;
        f->unread_bytes -= store_wire_bytes(&f->sched->dev.store, q->n);
    }
    return took;
}

/* Reads on into a frame: all subgroups whose wire is ready, of whichever device. */
static int frame_read(struct frames *f, struct frame *at)
{
    size_t before = at->unasked;

    if (at->unasked > 0 && run_in_place(&f->sched->cfg, at->block))
        base_submit(f, at);
    for (size_t d = 0; at->unasked > 0 && d < f->sched->dev.n; d++)
        for (struct shard_read *r = &at->shards[d]; r->next < r->end; r->next++, at->unasked--) {
            if (f->subs->sub[r->next].wire.version < at->version)
                break;
            read_submit(f, at, r->next);
        }
    return at->unasked != before;
}

/* Assigns a frame to another block, when its content is not used any more. */
static void frame_begin(struct frames *f, struct frame *at, size_t block)
{
    const struct store *st = &f->sched->dev.store;
    size_t              first = st->block_sub[block], end = st->block_sub[block + 1];

    at->block = block;
    at->version = f->version;
    at->unread = at->unasked = end - first;
    if (run_in_place(&f->sched->cfg, block))
        at->unread = at->unasked = f->sched->cfg.block_params[block] > 0;
    at->users = 1;
    at->partial = f->sched->cfg.ranks.size > 1;
    if (at->partial)
        f->partial[f->n_partial++] = at;
    for (size_t d = 0; d < st->n_devices; d++) { // a device's subgroups stand together
        at->shards[d].next = first;
        while (first < end && st->subs[first].device == d)
            first++;
        at->shards[d].end = first;
    }
    f->unread_bytes += store_wire_bytes(st, run_whole(&f->sched->cfg, block));
}

/* Begins a gather: sends this rank's portion in a frame to the others, and receives theirs. */
static int gather_begin(struct frames *f, struct frame *at, struct err *err)
{
    const struct run_ranks *r = &f->sched->cfg.ranks;
    size_t                  n = run_whole(&f->sched->cfg, at->block);

    for (size_t p = 0; p <= r->size; p++)
        f->at[p] = store_wire_bytes(&f->sched->dev.store, ranks_first(n, p, r->size));
    at->since = clock_ns();
    return comm_gather(r->comm, COMM_PARAMS, at->wire, f->at, &at->gather, err);
}

/* Ends a gather, and counts the bytes that came from all other ranks and went to each of them. */
static void gather_end(struct frames *f, struct frame *at)
{
    const struct run_config *cfg = &f->sched->cfg;
    const struct store      *st = &f->sched->dev.store;
    uint64_t others = store_wire_bytes(st, run_whole(cfg, at->block) - st->block_params[at->block]);

    at->partial = 0;
    f->unread_bytes -= others;
    scheduler_network(f->sched, f->pass == STREAM_TRAIN ? PHASE_GATHER : PHASE_EVAL, at->block,
                      CLASS_WIRE,
                      store_wire_bytes(st, st->block_params[at->block]) * (cfg->ranks.size - 1),
                      others, at->since);
}

/* Begins and ends gathers in the order of the pass, which is the same on all ranks. 1: something
 * began or ended. */
static int gathers_advance(struct frames *f, struct err *err)
{
    size_t over = 0, left = 0;
    int    rc = 0, moved = 0;

    for (; f->gathering < f->n_partial && f->partial[f->gathering]->unread == 0; f->gathering++) {
        if ((rc = gather_begin(f, f->partial[f->gathering], err)))
            return rc;
        moved = 1;
    }
    for (size_t i = 0; i < f->gathering; i++) {
        struct frame *at = f->partial[i];

        if ((rc = comm_test(f->sched->cfg.ranks.comm, &at->gather, err)) < 0)
            return rc;
        if (rc)
            gather_end(f, at);
        else
            f->partial[left++] = at;
        over += (size_t)rc;
    }
    if (over == 0)
        return moved;
    for (size_t i = f->gathering; i < f->n_partial; i++)
        f->partial[left++] = f->partial[i];
    f->gathering -= over;
    f->n_partial = left;
    return 1;
}

int frames_give_up(struct frames *f)
{
    int all = 1;

    for (size_t i = 0; i < f->n_partial; i++)
        all &= comm_give_up(f->sched->cfg.ranks.comm, &f->partial[i]->gather);
    return all;
}

/* Gives frames to the pass's next uses, in order, as far as they are free. */
int frames_advance(struct frames *f, struct err *err)
{
    int rc = base_take(f, err), progress = rc;

    if (rc < 0)
        return rc;
    for (; f->next_read < f->n_uses && !reads_enough(f); f->next_read++) {
        size_t        block = block_at(f, f->next_read);
        struct frame *at = frame_of(f, block);

        if (at->block == block && at->version == f->version) { // the block is still in its frame
            at->users++;
        } else {
            if (at->users > 0 || at->unread > 0 || at->partial)
                break;
            frame_begin(f, at, block);
        }
        progress = 1;
    }
    for (size_t i = 0; i < f->n_frames; i++)
        progress |= frame_read(f, &f->frames[i]);
    rc = gathers_advance(f, err);
    return rc < 0 ? rc : progress | rc;
}
