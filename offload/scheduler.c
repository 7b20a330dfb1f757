/* scheduler.c: THE scheduler: one thread that moves blocks between devices and buffers. Each turn
 * it reaps what is done, then submits whatever has become possible, and otherwise sleeps on the
 * bell of the devices:
 *
 *   updates    once asked for, block 0 first, as long as a slot of the class is free: beside commit
 *              A, as no slot that is committed is overwritten; with speculation, before that too
 *   reads      of the pass's next blocks, a subgroup as soon as it is updated, into frames that
 * were released, not far ahead of the model residuals  (error feedback) of blocks whose gradients
 * the model has begun gradients  as soon as the model has sent them and the block's last update is
 * committed (its redo would need the old ones) records    activations, pushed in forward and popped
 * in backward (records.c) commits    (commit.c)
 *
 * What the model waits for is broadcast on `changed`. The first error stops everything: it is kept,
 * and every call returns it. */
#include "offload/scheduler.h"

#include "data/base/clock.h"
#include "data/base/crc32c.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void scheduler_fail(struct scheduler *s, int rc, const struct err *err)
{
    if (!s->failed) {
        s->failed = rc;
        s->error = *err;
    }
    pthread_cond_broadcast(&s->changed);
}

int scheduler_failed(struct scheduler *s, struct err *err)
{
    int rc;

    pthread_mutex_lock(&s->mutex);
    rc = s->failed;
    if (rc && err)
        *err = s->error;
    pthread_mutex_unlock(&s->mutex);
    return rc;
}

static void submit(struct scheduler *s, size_t device, struct task *t)
{
    s->dev.csd[device]->ops->submit(s->dev.csd[device], &t->job);
}

/* ---- updates */

static double most_decay(const struct sub *u)
{
    double most = 0;

    for (size_t i = 0; i < u->n_segments; i++)
        most = fmax(most, (double)u->segments[i].weight_decay);
    return most;
}

/* Subgroup i's update to `version` into a free slot, with these numbers. */
static void update_submit(struct scheduler *s, size_t i, uint64_t version,
                          const struct optim_step *numbers, uint64_t step)
{
    const struct store     *st = &s->dev.store;
    const struct store_sub *g = &st->subs[i];
    struct class_free      *f = &s->free[g->class_];
    struct sub             *u = &s->subs[i];
    uint32_t                slot = f->slots[--f->n];
    int                     calm;

    u->state = SUB_UPDATING;
    calm = reach_calm(&u->reach, numbers, most_decay(u), u->grad_most);
    u->update = (struct task){ .kind = TASK_UPDATE, .sub = i, .step = step, .version = version,
                               .phase = s->redo || u->again ? PHASE_REDO : PHASE_UPDATE };
    u->again = 0;
    u->update.job = (struct csd_job){
        .kind = CSD_UPDATE,
        .tag = slot,
        .update = {
            .src_off = store_slot_off(st, g->class_, u->committed.slot),
            .dst_off = store_slot_off(st, g->class_, slot),
            .grad_off = g->grad_off, .n = g->n, .n_pad = g->n_pad,
            .grad_form = st->compress > 0 ? CSD_GRAD_PAIRS : CSD_GRAD_DENSE, .pairs = u->grad.pairs,
            .src_crc = u->committed.states_crc, .grad_crc = u->grad.crc, .step = *numbers,
            .segments = u->segments, .n_segments = u->n_segments, .calm = calm,
        },
    };
    s->updating[g->device]++;
    submit(s, g->device, &u->update);
}

static int slot_is_free(const struct scheduler *s, size_t i)
{
    return s->free[s->dev.store.subs[i].class_].n > 0;
}

/* The running update, block 0 first. Before A the gradients may still be on their way. */
static int queue_advance(struct scheduler *s, size_t d)
{
    uint64_t step = s->ask == ASK_RUNNING ? s->state.next_step - 1 : s->asked.row.step;
    int      progress = 0;

    for (; s->queue_next[d] < s->queue_first[d + 1]; s->queue_next[d]++) {
        size_t            i = s->queue[s->queue_next[d]];
        const struct sub *u = &s->subs[i];

        if (u->state != SUB_CLEAN || u->newest.version >= s->running_version)
            continue; // done: speculated on, or committed before a crash
        if (!slot_is_free(s, i) || (s->ask != ASK_RUNNING && !u->written))
            break; // until a commit, or a write
        update_submit(s, i, s->running_version, &s->running, step);
        progress = 1;
    }
    return progress;
}

/* Speculation, the gradient that came last first, the embeddings left out: where the device falls
 * behind, what waits is then spread over the blocks from the last one down, and the next forward,
 * which uses the first ones first, has something to hide it behind all along. Few at a time: block
 * 0 is next when the norm is known. */
static int ahead_advance(struct scheduler *s, size_t d)
{
    enum { AHEAD = 2 };
    int progress = 0;

    for (size_t q = s->queue_first[d]; s->updating[d] < AHEAD && q < s->queue_first[d + 1]; q++) {
        size_t            i = s->queue[q];
        const struct sub *u = &s->subs[i];

        if (s->dev.store.subs[i].block == 0 || !u->written || u->state != SUB_CLEAN)
            continue;
        if (!slot_is_free(s, i))
            break;
        update_submit(s, i, s->applied + 1, &s->expected, s->pass_step);
        progress = 1;
    }
    return progress;
}

static int updates_advance(struct scheduler *s)
{
    int early = s->ask == ASK_WAITING && !s->asked.skip && s->dropping == 0, progress = 0;

    for (size_t d = 0; d < s->dev.n; d++) {
        if (s->ask == ASK_RUNNING || early)
            progress |= queue_advance(s, d);
        else if (s->ask == ASK_NONE && s->expecting)
            progress |= ahead_advance(s, d);
    }
    return progress;
}

void scheduler_queue(struct scheduler *s)
{
    for (size_t d = 0; d < s->dev.n; d++)
        s->queue_next[d] = s->queue_first[d];
}

void scheduler_count(struct scheduler *s)
{
    s->to_update = s->to_commit = 0;
    for (size_t i = 0; i < s->dev.store.n_subs; i++) {
        s->to_update += s->subs[i].newest.version < s->running_version;
        s->to_commit += s->subs[i].committed.version < s->running_version;
    }
}

void scheduler_slot_free(struct scheduler *s, size_t i, uint32_t slot)
{
    struct class_free *f = &s->free[s->dev.store.subs[i].class_];

    f->slots[f->n++] = slot;
}

static void update_done(struct scheduler *s, struct task *t)
{
    struct sub              *u = &s->subs[t->sub];
    const struct csd_update *r = &t->job.update;
    uint32_t                 slot = (uint32_t)t->job.tag;

    s->updating[s->dev.store.subs[t->sub].device]--;
    if (u->state == SUB_DROPPED) {
        u->state = SUB_CLEAN;
        scheduler_slot_free(s, t->sub, slot);
        s->dropping--;
        return;
    }
    u->newest = (struct journal_sub){
        .slot = slot, .states_crc = r->dst_crc, .wire_crc = r->wire_crc, .version = t->version,
    };
    if (!r->calm)
        u->reach = r->reach;
    u->kept = devices_fake(&s->cfg) ? (struct reach_kept){ 0 } : r->kept;
    u->state = SUB_UPDATED;
    s->free[s->dev.store.subs[t->sub].class_].uncommitted++;
    if (s->ask == ASK_RUNNING)
        s->to_update--;
}

/* The new slot of a subgroup, there or on its way, is not to be. */
static void update_drop(struct scheduler *s, size_t i, int again)
{
    struct sub *u = &s->subs[i];

    if (u->state == SUB_CLEAN)
        return;
    u->again = again;
    u->reach = REACH_UNKNOWN; // of what it was before
    if (u->state == SUB_UPDATING) {
        u->state = SUB_DROPPED;
        s->dropping++;
        return;
    }
    scheduler_slot_free(s, i, u->newest.slot);
    s->free[s->dev.store.subs[i].class_].uncommitted--;
    u->newest = u->committed;
    u->state = SUB_CLEAN;
}

void scheduler_judge(struct scheduler *s, const struct stream_step *step)
{
    int as_expected = memcmp(&s->expected, &step->optim, sizeof s->expected) == 0;

    s->expecting = 0;
    for (size_t i = 0; (step->skip || !as_expected) && i < s->dev.store.n_subs; i++)
        update_drop(s, i, !step->skip);
    if (!step->skip)
        s->clipped = !as_expected;
}

size_t scheduler_version_lag(const struct scheduler *s, size_t block)
{
    size_t lag = 0;

    for (size_t i = s->dev.store.block_sub[block]; i < s->dev.store.block_sub[block + 1]; i++)
        lag += s->subs[i].newest.version < s->applied;
    return lag;
}

/* ---- reads */

static void read_submit(struct scheduler *s, struct frame *f, size_t i)
{
    const struct store     *st = &s->dev.store;
    const struct store_sub *g = &st->subs[i];
    struct sub             *u = &s->subs[i];
    size_t                  e = dtype_bytes(st->wire_dt);

    u->read = (struct task){ .kind = TASK_READ, .sub = i, .step = s->pass_step,
                             .phase = s->pass == STREAM_EVAL ? PHASE_EVAL : PHASE_PARAM_READ };
    u->read.job = (struct csd_job){
        .kind = CSD_READ, .cls = CLASS_WIRE, .buf = (char *)f->wire + g->first * e,
        .off = store_slot_off(st, g->class_, u->newest.slot) + store_state_bytes(st, g->n_pad),
        .bytes = g->n_pad * e, .payload = g->n * e, .tag = u->newest.wire_crc,
    };
    submit(s, g->device, &u->read);
}

/* Read on into a frame: its block's subgroups that are updated by now, whichever device is ahead.
 */
static int frame_read(struct scheduler *s, struct frame *f)
{
    size_t before = f->unasked;

    for (size_t d = 0; f->unasked > 0 && d < s->dev.n; d++)
        for (struct shard_read *r = &f->shards[d]; r->next < r->end; r->next++, f->unasked--) {
            if (s->subs[r->next].newest.version < f->version)
                break;
            read_submit(s, f, r->next);
        }
    return f->unasked != before;
}

/* Nothing that a frame holds is used any more: it is for another block. */
static void frame_begin(struct scheduler *s, struct frame *f, size_t block)
{
    const struct store *st = &s->dev.store;
    size_t              first = st->block_sub[block], end = st->block_sub[block + 1];

    *f = (struct frame){ .wire = f->wire,
                         .block = block,
                         .version = s->applied,
                         .unread = end - first,
                         .unasked = end - first,
                         .shards = f->shards,
                         .users = 1 };
    for (size_t d = 0; d < s->dev.n; d++) { // each device's lie together
        f->shards[d].next = first;
        while (first < end && st->subs[first].device == d)
            first++;
        f->shards[d].end = first;
    }
    s->unread_bytes += st->block_params[block] * dtype_bytes(st->wire_dt);
}

/* A drive serves in turn all that it is asked for: what is read further ahead keeps the model
 * waiting for what it needs next, be it a read, a gradient's write or block 0's update. */
int scheduler_reads_enough(const struct scheduler *s)
{
    enum { AHEAD_BLOCKS = 2, AHEAD_BYTES = 64 << 20 };
    size_t bytes = s->cfg.read_ahead ? s->cfg.read_ahead : AHEAD_BYTES;

    return s->next_read >= s->next_acquire + AHEAD_BLOCKS && s->unread_bytes >= bytes;
}

/* Give frames to the pass's next uses, in order, as far as they are free. */
static int reads_advance(struct scheduler *s)
{
    int progress = 0;

    for (; s->next_read < s->n_uses && !scheduler_reads_enough(s); s->next_read++) {
        const struct order_use *use = &s->uses[s->next_read];
        struct frame           *f = &s->frames[use->frame];

        if (f->block == use->block && f->version == s->applied) { // still there
            f->users++;
        } else {
            if (f->users > 0 || f->unread > 0)
                break;
            frame_begin(s, f, use->block);
        }
        progress = 1;
    }
    for (size_t i = 0; i < s->n_frames + 2; i++)
        progress |= frame_read(s, &s->frames[i]);
    return progress;
}

static void read_done(struct scheduler *s, const struct task *t)
{
    const struct store_sub *u = &s->dev.store.subs[t->sub];

    s->frames[order_frame(u->block, s->n_layer, s->n_frames)].unread--;
    s->unread_bytes -= u->n * dtype_bytes(s->dev.store.wire_dt);
}

/* ---- residuals */

/* The committed ones: the model asks when the commit A before is through, so `state` says which
 * they are. */
static void residual_read(struct scheduler *s, struct gbuf *g, size_t i)
{
    const struct store_sub *u = &s->dev.store.subs[i];
    struct task            *t = &s->subs[i].residual;

    *t = (struct task){ .kind = TASK_RESIDUAL_READ, .sub = i, .step = g->step,
                        .phase = s->cfg.residual_in_ram ? PHASE_SETUP : PHASE_GRAD_WRITE };
    t->job = (struct csd_job){ .kind = CSD_READ,
                               .cls = CLASS_RESIDUAL,
                               .buf = g->residual + u->first,
                               .off = store_residual_off(u, s->state.applied),
                               .bytes = store_residual_bytes(u->n_pad),
                               .payload = sizeof(float) * u->n,
                               .tag = s->subs[i].residual_crc,
                               .user = g };
    submit(s, u->device, t);
}

static int residuals_advance(struct scheduler *s)
{
    int progress = 0;

    for (size_t i = 0; i < s->n_gbufs + 2; i++) {
        struct gbuf *g = &s->gbufs[i];
        size_t first = s->dev.store.block_sub[g->block], end = s->dev.store.block_sub[g->block + 1];

        if (g->residual_ask != RESIDUAL_ASKED)
            continue;
        g->residual_ask = RESIDUAL_READING;
        g->unread = end - first;
        for (size_t k = first; k < end; k++)
            residual_read(s, g, k);
        progress = 1;
    }
    return progress;
}

static void residual_read_done(const struct task *t)
{
    struct gbuf *g = t->job.user;

    if (--g->unread == 0)
        g->residual_ask = RESIDUAL_READY;
}

/* Into the area that is not the committed one. */
static void residual_write(struct scheduler *s, struct gbuf *g, size_t i, uint32_t crc)
{
    const struct store_sub *u = &s->dev.store.subs[i];
    struct task            *t = &s->subs[i].residual;

    s->subs[i].residual_next = crc;
    g->unwritten++;
    *t = (struct task){
        .kind = TASK_RESIDUAL_WRITE, .sub = i, .step = g->step, .phase = PHASE_GRAD_WRITE
    };
    t->job = (struct csd_job){ .kind = CSD_WRITE,
                               .cls = CLASS_RESIDUAL,
                               .buf = g->residual + u->first,
                               .off = store_residual_off(u, s->state.applied + 1),
                               .bytes = store_residual_bytes(u->n_pad),
                               .payload = sizeof(float) * u->n,
                               .user = g };
    submit(s, u->device, t);
}

/* ---- gradients */

/* Nobody will update from the gradients of the step before that lie there. */
static int block_is_committed(const struct scheduler *s, size_t first, size_t end)
{
    while (first < end && s->subs[first].committed.version == s->state.applied)
        first++;
    return first == end;
}

static int grads_advance(struct scheduler *s)
{
    int progress = 0;

    for (size_t i = 0; i < s->n_gbufs + 2; i++) {
        struct gbuf *g = &s->gbufs[i];
        size_t first = s->dev.store.block_sub[g->block], end = s->dev.store.block_sub[g->block + 1];

        if (g->state != GBUF_QUEUED || !block_is_committed(s, first, end))
            continue;
        g->state = GBUF_WRITING;
        g->unwritten = end - first;
        for (size_t k = first; k < end; k++) {
            const struct grads_part *p = &g->parts[k - first];
            struct sub              *u = &s->subs[k];

            u->grad = (struct journal_grad){ .crc = p->crc, .pairs = p->pairs };
            u->grad_most = g->most;
            u->write = (struct task){ .kind = TASK_GRAD, .sub = k, .step = g->step,
                                      .phase = PHASE_GRAD_WRITE };
            u->write.job = (struct csd_job){ .kind = CSD_WRITE,
                                             .cls = CLASS_GRADIENT,
                                             .buf = p->bytes,
                                             .off = s->dev.store.subs[k].grad_off,
                                             .bytes = p->n_bytes,
                                             .payload = p->payload,
                                             .user = g };
            submit(s, s->dev.store.subs[k].device, &u->write);
            if (s->cfg.error_feedback)
                residual_write(s, g, k, p->residual_crc);
        }
        progress = 1;
    }
    return progress;
}

/* Of a gradient or of the residual beside it. */
static void grad_done(struct scheduler *s, const struct task *t)
{
    struct gbuf *g = t->job.user;

    if (t->kind == TASK_GRAD)
        s->subs[t->sub].written = 1;
    if (--g->unwritten == 0) {
        g->state = GBUF_FREE;
        s->grads_written++;
    }
}

/* ---- the thread */

static int of_record(const struct task *t)
{
    return t->kind == TASK_RECORD_READ || t->kind == TASK_RECORD_WRITE;
}

/* What failed belongs to, for a sentence. */
static const char *task_place(const struct scheduler *s, const struct task *t, char *buf,
                              size_t size)
{
    buf[0] = '\0';
    if (of_record(t))
        snprintf(buf, size, " (activations, step %llu)", (unsigned long long)t->step + 1);
    else if (t->kind != TASK_FLUSH)
        snprintf(buf, size, " (block %zu, step %llu)", s->dev.store.subs[t->sub].block,
                 (unsigned long long)t->step + 1);
    return buf;
}

/* What was read is not what was written. Activations are of one step: nothing of the run is
 * damaged. */
static int task_damaged(const struct scheduler *s, const struct task *t, int device,
                        struct err *err)
{
    unsigned long long off = t->job.off, step = t->step + 1;
    const char        *path = s->dev.paths[device];

    if (of_record(t))
        return err_set(err, -EIO,
                       "device %d (%s): the activations of step %llu at offset %llu are damaged "
                       "(checksum differs); the states are not: go on with --resume",
                       device, path, step, off);
    return err_set(err, -EBADMSG, "device %d (%s): the %s of block %zu at offset %llu %s damaged "
                   "(checksum differs)", device, path,
                   t->kind == TASK_READ ? "wire parameters" : "residual",
                   s->dev.store.subs[t->sub].block, off, t->kind == TASK_READ ? "are" : "is");
}

/* What a job moved and how long it took, and whether it failed; before the mutex is taken. */
static int task_check(struct scheduler *s, struct task *t, int device, struct err *err)
{
    const struct csd_job *j = &t->job;
    static const enum runlog_phase part_phase[CSD_SPANS] = {
        [SPAN_READ]    = PHASE_UPDATE_READ,
        [SPAN_COMPUTE] = PHASE_UPDATE_COMPUTE,
        [SPAN_WRITE]   = PHASE_UPDATE_WRITE,
    };
    int checked =
        t->kind == TASK_READ || t->kind == TASK_RESIDUAL_READ || t->kind == TASK_RECORD_READ;
    int  block = t->kind == TASK_FLUSH || of_record(t) ? -1 : (int)s->dev.store.subs[t->sub].block;
    char place[64];

    if (j->status)
        return err_set(err, j->status, "%s%s", j->why, task_place(s, t, place, sizeof place));
    if (t->kind == TASK_FLUSH)
        return 0;
    meter_traffic(s->meter, t->step, t->phase, device, &j->meter);
    meter_span(s->meter, t->step, t->phase, block, device, j->start_ns[SPAN_JOB],
               j->end_ns[SPAN_JOB], j->payload);
    for (int p = SPAN_READ; t->kind == TASK_UPDATE && t->phase != PHASE_REDO && p < CSD_SPANS; p++)
        meter_span(s->meter, t->step, part_phase[p], block, device, j->start_ns[p], j->end_ns[p],
                   0);
    if (checked && !devices_fake(&s->cfg) && crc32c(0, j->buf, j->bytes) != (uint32_t)j->tag)
        return task_damaged(s, t, device, err);
    return 0;
}

static void task_done(struct scheduler *s, struct task *t)
{
    switch (t->kind) {
    case TASK_READ:
        read_done(s, t);
        break;
    case TASK_GRAD:
    case TASK_RESIDUAL_WRITE:
        grad_done(s, t);
        break;
    case TASK_RESIDUAL_READ:
        residual_read_done(t);
        break;
    case TASK_RECORD_READ:
    case TASK_RECORD_WRITE:
        records_done(t);
        break;
    case TASK_UPDATE:
        update_done(s, t);
        break;
    case TASK_FLUSH:
        s->unflushed--;
        break;
    }
}

/* Reap every device once; the mutex is not held while results are checked. */
static int reap(struct scheduler *s, struct err *err)
{
    enum { MAX = 64 };
    struct csd_job *done[MAX];
    int             progress = 0;

    for (size_t d = 0; d < s->dev.n; d++) {
        int n = s->dev.csd[d]->ops->reap(s->dev.csd[d], done, MAX);
        int rc = 0;

        for (int i = 0; !rc && i < n; i++)
            rc = task_check(s, (struct task *)done[i], (int)d, err);
        if (rc)
            return rc;
        if (n == 0)
            continue;
        pthread_mutex_lock(&s->mutex);
        for (int i = 0; i < n; i++)
            task_done(s, (struct task *)done[i]);
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->mutex);
        progress = 1;
    }
    return progress;
}

static int advance(struct scheduler *s, struct err *err)
{
    int progress = 0, rc;

    pthread_mutex_lock(&s->mutex);
    progress |= updates_advance(s);
    progress |= reads_advance(s);
    progress |= residuals_advance(s);
    progress |= grads_advance(s);
    progress |= records_advance(s);
    rc = commit_advance(s, &progress, err);
    if (progress)
        pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
    return rc ? rc : progress;
}

void *scheduler_thread(void *scheduler)
{
    struct scheduler *s = scheduler;
    struct err        err = { 0 };
    uint64_t          seen = 0;

    for (;;) {
        int reaped, moved = 0, stop;

        reaped = reap(s, &err);
        if (reaped >= 0)
            moved = advance(s, &err);
        pthread_mutex_lock(&s->mutex);
        if (reaped < 0 || moved < 0)
            scheduler_fail(s, reaped < 0 ? reaped : moved, &err);
        stop = s->stop || s->failed;
        pthread_mutex_unlock(&s->mutex);
        if (stop)
            return NULL;
        if (!reaped && !moved)
            seen = csd_bell_wait(&s->dev.bell, seen, 1000000000u);
    }
}
