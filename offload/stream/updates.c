/* updates.c: decides which subgroup each device updates next, with which numbers, and submits the
 * updates. */
#include "offload/stream/updates.h"

#include <math.h>

/* ---- set-up */

/* Fills in each subgroup's segments of equal decay, and returns how many there are in all. With
 * segments NULL it only counts. */
static size_t segments_fill(struct updates *u, const struct store *st, struct csd_segment *segments)
{
    const struct run_config *cfg = &u->sched->cfg;
    size_t                   n = 0;

    for (size_t i = 0; i < st->n_subs; i++) {
        const struct store_sub *sub = &st->subs[i];
        struct update           of = { 0 };

        for (size_t at = 0, count; sub->trains && at < sub->n; at += count, n++, of.n_segments++) {
            float wd = cfg->decay(cfg->decay_ctx, sub->block, sub->first + at, sub->n - at, &count);

            of.most_decay = fmax(of.most_decay, (double)wd);
            if (segments)
                segments[n] = (struct csd_segment){ at, count, wd };
        }
        if (!segments)
            continue;
        of.segments = segments + n - of.n_segments;
        u->of[i] = of;
    }
    return n;
}

void updates_tables(struct updates *u, const struct store *st, struct arena *a)
{
    struct csd_segment *segments;

    u->of = arena_take(a, st->n_subs * sizeof *u->of);
    u->order = arena_take(a, st->n_trained * sizeof *u->order);
    u->queues = arena_take(a, st->n_devices * sizeof *u->queues);
    segments = arena_take(a, segments_fill(u, st, NULL) * sizeof *segments);
    if (segments)
        segments_fill(u, st, segments);
}

static void count(struct updates *u)
{
    u->to_update = u->to_commit = 0;
    for (size_t i = 0; i < u->subs->store->n_subs; i++) {
        u->to_update += u->subs->sub[i].newest.version < u->version;
        u->to_commit += u->subs->sub[i].committed.version < u->version;
    }
}

/* Starts the running update with block 0, again if necessary. */
static void queues_rewind(struct updates *u)
{
    for (size_t d = 0; d < u->subs->store->n_devices; d++)
        u->queues[d].next = u->queues[d].first;
}

void updates_open(struct updates *u)
{
    const struct store *st = u->subs->store;
    size_t              n = 0;

    for (size_t d = 0; d < st->n_devices; d++) {
        u->queues[d].first = u->queues[d].next = n;
        for (size_t i = 0; i < st->n_subs; i++)
            if (st->subs[i].device == d && st->subs[i].trains)
                u->order[n++] = i;
        u->queues[d].end = n;
    }
    u->applied = u->version = u->subs->state.applied;
    u->numbers = u->subs->state.optim;
    count(u);
    u->redo = u->to_update > 0;
    u->ask = u->redo ? ASK_RUNNING : ASK_NONE;
}

/* ---- submitting */

static void update_done(void *part, struct task *t)
{
    struct updates          *u = part;
    const struct csd_update *r = &t->job.update;
    struct sub              *sub = &u->subs->sub[t->sub];
    struct journal_sub       newest = { .slot = (uint32_t)t->job.tag, .states_crc = r->dst_crc,
                                        .wire_crc = r->wire_crc,
                                        .version = u->of[t->sub].version };

    u->queues[u->subs->store->subs[t->sub].device].out--;
    if (!subs_end(u->subs, t->sub, &newest))
        return;
    if (!r->unchecked)
        sub->bounds = r->bounds;
    sub->overflow = devices_fake(&u->sched->cfg) ? (struct overflow){ 0 } : r->overflow;
    if (u->ask == ASK_RUNNING)
        u->to_update--;
}

static void ahead_done(void *part, struct task *t)
{
    struct updates       *u = part;
    const struct sub_wire wire = { u->of[t->sub].version, (uint32_t)t->job.tag,
                                   t->job.update.wire_crc };

    subs_ahead(u->subs, t->sub, &wire);
}

/* Submits subgroup i's update to `version`, into a free slot. */
static void update_submit(struct updates *u, size_t i, uint64_t version,
                          const struct optim_step *numbers, uint64_t step)
{
    static const struct task_kind kind = { TASK_OF_SUBGROUP, update_done, NULL, NULL };
    static const struct task_kind ahead = { TASK_OF_SUBGROUP, ahead_done, NULL, NULL };
    const struct store           *st = u->subs->store;
    const struct store_sub       *g = &st->subs[i];
    struct sub                   *sub = &u->subs->sub[i];
    struct update                *at = &u->of[i];
    uint32_t                      slot = subs_begin(u->subs, i);

    at->version = version;
    at->task = (struct task){
        .kind = &kind, .part = u, .sub = i, .step = step,
        .phase = u->redo || sub->again ? PHASE_REDO : PHASE_UPDATE,
        .job = { .kind = CSD_UPDATE, .tag = slot },
        .job.update = {
            .src_off = store_slot_off(st, g->class_, sub->committed.slot),
            .dst_off = store_slot_off(st, g->class_, slot),
            .grad_off = g->grad_off, .n = g->n, .n_pad = g->n_pad,
            .grad_form = st->compress > 0 ? CSD_GRAD_PAIRS : CSD_GRAD_DENSE,
            .pairs = sub->grad.pairs, .src_crc = sub->committed.states_crc,
            .grad_crc = sub->grad.crc, .step = *numbers,
            .segments = at->segments, .n_segments = at->n_segments,
            .unchecked = bounds_advance(&sub->bounds, numbers, at->most_decay, sub->grad_most),
        },
    };
    // a naive device's stages end before the next update begins
    if (run_modes[u->sched->cfg.mode].handler != CSD_NAIVE) {
        at->ahead = at->task;
        at->ahead.kind = &ahead;
        at->ahead.job = (struct csd_job){ .kind = CSD_AHEAD, .tag = slot };
        at->task.job.update.ahead = &at->ahead.job;
    }
    sub->again = 0;
    u->queues[g->device].out++;
    scheduler_submit(u->sched, g->device, &at->task);
}

/* Submits the running update, block 0 first. Before A the gradients may still be on their way. */
static int queue_advance(struct updates *u, struct update_queue *q)
{
    int      running = u->ask == ASK_RUNNING, progress = 0;
    uint64_t step = running ? u->subs->state.next_step - 1 : u->asked.row.step;

    for (; q->next < q->end; q->next++) {
        size_t            i = u->order[q->next];
        const struct sub *sub = &u->subs->sub[i];

        if (sub->state != SUB_CLEAN || sub->newest.version >= u->version)
            continue; // done already: by speculation, or before a crash
        if (!running && !sub->written)
            break; // waits for a gradient's write
        if (!subs_slot_free(u->subs, i)) {
            subs_want(u->subs, i); // waits for a commit, or a snapshot's copy
            break;
        }
        update_submit(u, i, u->version, &u->numbers, step);
        progress = 1;
    }
    return progress;
}

/* Submits speculative updates, the last gradient's first, but not of the block with which the norm
 * becomes known. If the device falls behind, waiting updates are then spread over the blocks from
 * the last one down. The next forward, which uses the first blocks first, can hide them all along.
 * Few are submitted at a time, because block 0 is next when the norm is known. */
static int ahead_advance(struct updates *u, struct update_queue *q)
{
    enum { AHEAD = 2 };
    const struct store *st = u->subs->store;
    int                 progress = 0;

    for (size_t at = q->first; q->out < AHEAD && at < q->end; at++) {
        size_t            i = u->order[at];
        const struct sub *sub = &u->subs->sub[i];

        if (st->subs[i].block == st->last || !sub->written || sub->state != SUB_CLEAN)
            continue;
        if (!subs_slot_free(u->subs, i))
            break;
        update_submit(u, i, u->applied + 1, &u->expected, u->sched->step);
        progress = 1;
    }
    return progress;
}

int updates_advance(struct updates *u)
{
    int early = u->ask == ASK_WAITING && !u->asked.skip && u->subs->dropping == 0, progress = 0;

    for (size_t d = 0; d < u->subs->store->n_devices; d++) {
        if (u->ask == ASK_RUNNING || early)
            progress |= queue_advance(u, &u->queues[d]);
        else if (u->ask == ASK_NONE && u->expecting)
            progress |= ahead_advance(u, &u->queues[d]);
    }
    return progress;
}

/* ---- asking for an update, and what becomes of it */

void updates_expect(struct updates *u, const struct optim_step *numbers)
{
    u->expected = *numbers;
    u->expecting = u->sched->cfg.speculate && !u->clipped;
}

void updates_ask(struct updates *u, const struct stream_step *step)
{
    int as_expected = memcmp(&u->expected, &step->optim, sizeof u->expected) == 0;

    u->expecting = 0;
    for (size_t i = 0; (step->skip || !as_expected) && i < u->subs->store->n_subs; i++)
        subs_drop(u->subs, i, !step->skip); // speculation failed
    if (!step->skip)
        u->clipped = !as_expected;
    u->asked = *step;
    u->ask = ASK_WAITING;
    u->applied += !step->skip;
    u->numbers = step->optim;
    u->version = u->applied;
    queues_rewind(u);
}

void updates_committed(struct updates *u, int a)
{
    if (a)
        queues_rewind(u);
    count(u);
    u->ask = u->to_commit > 0 ? ASK_RUNNING : ASK_NONE;
    u->redo = u->redo && u->to_commit > 0;
}
