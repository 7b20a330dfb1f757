/* stream_csd.c: the training stream over devices (base, su, su+o): the model's side of the
 * scheduler, and its set-up. */
#include "offload/stream_csd.h"

#include "offload/scheduler.h"

#include "data/base/clock.h"
#include "data/base/round.h"
#include "kernels/elementwise.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SPANS = 16384 };

static struct scheduler *of(struct stream *s)
{
    return (struct scheduler *)s;
}

/* ---- what the model calls */

/* A training pass reads every parameter anew, even after an evaluation or a skip: each step moves
 * what the table says. */
static void frames_forget(struct scheduler *s)
{
    for (size_t i = 0; i < s->n_frames + 2; i++)
        s->frames[i].block = SIZE_MAX;
}

static int csd_begin(struct stream *stream, enum stream_pass pass, uint64_t step, struct err *err)
{
    struct scheduler *s = of(stream);

    pthread_mutex_lock(&s->mutex);
    assert(s->next_acquire == s->n_uses && s->records.depth == 0); // the pass before is through
    if (pass == STREAM_TRAIN)
        frames_forget(s);
    s->pass = pass;
    s->pass_step = step;
    s->n_uses = order_uses(s->uses, pass, s->n_layer, s->n_frames);
    s->next_read = s->next_acquire = 0;
    pthread_mutex_unlock(&s->mutex);
    csd_bell_ring(&s->dev.bell);
    return scheduler_failed(s, err);
}

static void csd_expect(struct stream *stream, const struct optim_step *optim)
{
    struct scheduler *s = of(stream);

    pthread_mutex_lock(&s->mutex);
    s->expected = *optim;
    s->expecting = s->cfg.speculate && !s->clipped;
    pthread_mutex_unlock(&s->mutex);
}

static int csd_acquire(struct stream *stream, size_t block, const void **wire, struct err *err)
{
    struct scheduler *s = of(stream);
    struct frame     *f;
    uint64_t          start = clock_ns();
    int               waited = 0, lagged, held_back;

    pthread_mutex_lock(&s->mutex);
    assert(s->next_acquire < s->n_uses && s->uses[s->next_acquire].block == block);
    f = &s->frames[s->uses[s->next_acquire].frame];
    lagged = scheduler_version_lag(s, block) > 0;
    while (!s->failed && (s->next_read <= s->next_acquire || f->unread > 0)) {
        pthread_cond_wait(&s->changed, &s->mutex);
        waited = 1;
    }
    held_back = scheduler_reads_enough(s);
    s->next_acquire++;
    *wire = f->wire;
    pthread_mutex_unlock(&s->mutex);
    if (held_back)
        csd_bell_ring(&s->dev.bell);
    if (waited) // an evaluation's waits are no part of a step
        meter_span(s->meter, s->pass_step,
                   s->pass == STREAM_EVAL ? PHASE_EVAL
                   : lagged               ? PHASE_OPTIMIZER_WAIT
                                          : PHASE_PARAM_READ,
                   (int)block, -1, start, clock_ns(), 0);
    return scheduler_failed(s, err);
}

static void csd_release(struct stream *stream, size_t block)
{
    struct scheduler *s = of(stream);

    pthread_mutex_lock(&s->mutex);
    s->frames[order_frame(block, s->n_layer, s->n_frames)].users--;
    pthread_mutex_unlock(&s->mutex);
    csd_bell_ring(&s->dev.bell);
}

static struct gbuf *gbuf_of(struct scheduler *s, size_t block)
{
    if (block == 0)
        return &s->gbufs[s->n_gbufs];
    if (block == s->n_layer + 1)
        return &s->gbufs[s->n_gbufs + 1];
    return &s->gbufs[block % s->n_gbufs];
}

/* A gradient that begins: have what its block owes read beside it, unless RAM has it; whether it is
 * to be read. Mutex held. */
static int residual_ask(struct scheduler *s, struct gbuf *g)
{
    struct residual *r = s->cfg.residual_in_ram ? &s->residuals[g->block] : NULL;

    if (!s->cfg.error_feedback)
        return 0;
    if (r) {
        g->residual = r->values;
        if (r->held != HELD_NONE)
            return 0;
        r->held = HELD_COMMITTED;
    }
    g->residual_ask = RESIDUAL_ASKED;
    return 1;
}

static int residual_wait(struct scheduler *s, const struct gbuf *g, struct err *err)
{
    uint64_t start = clock_ns();
    int      waited = 0;

    pthread_mutex_lock(&s->mutex);
    while (!s->failed && g->residual_ask != RESIDUAL_READY) {
        pthread_cond_wait(&s->changed, &s->mutex);
        waited = 1;
    }
    pthread_mutex_unlock(&s->mutex);
    if (waited)
        meter_span(s->meter, g->step, PHASE_GRAD_WRITE, (int)g->block, -1, start, clock_ns(), 0);
    return scheduler_failed(s, err);
}

/* The step's fate is known. Mutex held. */
static void residuals_settle(struct scheduler *s, int skip)
{
    for (size_t b = 0; s->residuals && b < s->cfg.n_blocks; b++)
        if (s->residuals[b].held == HELD_NEXT)
            s->residuals[b].held = skip ? HELD_NONE : HELD_COMMITTED;
}

static int csd_grad(struct stream *stream, size_t block, float **grad, int *fresh, struct err *err)
{
    struct scheduler *s = of(stream);
    struct gbuf      *g = gbuf_of(s, block);
    uint64_t          start = clock_ns();
    size_t            n = s->cfg.block_params[block];
    int               waited = 0, asked = 0;

    *fresh = 0;
    pthread_mutex_lock(&s->mutex);
    if (g->state != GBUF_LENT || g->block != block) {
        // nothing of a step before A of the one before
        while (!s->failed && (g->state != GBUF_FREE || s->ask == ASK_WAITING)) {
            pthread_cond_wait(&s->changed, &s->mutex);
            waited = 1;
        }
        if (!s->failed) { // else it may be on its way to a device still
            g->state = GBUF_LENT;
            g->block = block;
            g->step = s->pass_step;
            asked = residual_ask(s, g);
            *fresh = 1;
        }
    }
    pthread_mutex_unlock(&s->mutex);
    if (asked)
        csd_bell_ring(&s->dev.bell);
    if (waited)
        meter_span(s->meter, s->pass_step, PHASE_GRAD_WRITE, (int)block, -1, start, clock_ns(), 0);
    if (*fresh) // what devices get behind its end; the rest is written by whoever asked
        floats_zero(g->grad + n, store_pad(n) - n);
    *grad = g->grad;
    return scheduler_failed(s, err);
}

static int csd_send_grad(struct stream *stream, size_t block, struct stream_norm *norm,
                         struct err *err)
{
    struct scheduler *s = of(stream);
    struct gbuf      *g = gbuf_of(s, block);
    uint64_t          start = clock_ns();
    int               rc = 0, overflow = 0;

    assert(g->state == GBUF_LENT && g->block == block);
    g->most = grads_norm(norm, block, g->grad, s->cfg.block_params[block], s->scratch);
    if (s->cfg.error_feedback)
        rc = residual_wait(s, g, err);
    if (rc)
        return rc;
    if (!norm->nonfinite && s->cfg.compress > 0)
        overflow = grads_pairs(g->parts, &s->dev.store, block, g->grad,
                               s->cfg.error_feedback ? g->residual : NULL, g->pack, s->scratch,
                               &g->most);
    else if (!norm->nonfinite)
        grads_dense(g->parts, &s->dev.store, block, g->grad);
    if (overflow)
        stream_norm_flag(norm, block);
    meter_span(s->meter, s->pass_step, PHASE_GRAD_COMPRESS, (int)block, -1, start, clock_ns(),
               4 * s->cfg.block_params[block]);

    pthread_mutex_lock(&s->mutex);
    s->grads_sent++;
    if (overflow && s->residuals)
        s->residuals[block].held = HELD_NONE;
    if (norm->nonfinite) { // the step will be skipped: nothing of it is written from here on
        g->state = GBUF_FREE;
        s->grads_written++;
        s->expecting = 0;
    } else {
        g->state = GBUF_QUEUED;
        if (s->residuals)
            s->residuals[block].held = HELD_NEXT;
    }
    pthread_mutex_unlock(&s->mutex);
    csd_bell_ring(&s->dev.bell);
    return scheduler_failed(s, err);
}

/* All that was asked for is committed: did any of it leave elements as they were? Mutex held. */
static void kept_fail(struct scheduler *s)
{
    struct err why;

    if (s->failed || !s->kept.n)
        return;
    scheduler_fail(s, run_kept(&s->cfg, s->state.next_step, &s->kept, &why), &why);
}

static int csd_update(struct stream *stream, const struct stream_step *step, struct err *err)
{
    struct scheduler *s = of(stream);
    uint64_t          start_ns = clock_ns();

    pthread_mutex_lock(&s->mutex);
    while (!s->failed && s->ask != ASK_NONE) // the last commit of the step before
        pthread_cond_wait(&s->changed, &s->mutex);
    kept_fail(s);
    if (s->failed) {
        pthread_mutex_unlock(&s->mutex);
        return scheduler_failed(s, err);
    }
    records_settle(s);
    scheduler_judge(s, step);
    s->asked = *step;
    s->asked.row.seconds += (double)(clock_ns() - start_ns) * 1e-9;
    s->ask = ASK_WAITING;
    if (!step->skip)
        s->applied++;
    s->running = step->optim;
    s->running_version = s->applied;
    scheduler_queue(s);
    residuals_settle(s, step->skip);
    pthread_mutex_unlock(&s->mutex);
    csd_bell_ring(&s->dev.bell);
    return scheduler_failed(s, err);
}

static int csd_drain(struct stream *stream, struct err *err)
{
    struct scheduler *s = of(stream);

    pthread_mutex_lock(&s->mutex);
    while (!s->failed && s->ask != ASK_NONE)
        pthread_cond_wait(&s->changed, &s->mutex);
    kept_fail(s);
    pthread_mutex_unlock(&s->mutex);
    return scheduler_failed(s, err);
}

/* The scheduler's thread owns the devices: for as long as masters are lent it is not there. */
static void thread_stop(struct scheduler *s)
{
    if (!s->thread_started)
        return;
    pthread_mutex_lock(&s->mutex);
    s->stop = 1;
    pthread_mutex_unlock(&s->mutex);
    csd_bell_ring(&s->dev.bell);
    pthread_join(s->thread, NULL);
    s->thread_started = 0;
}

static int thread_start(struct scheduler *s, struct err *err)
{
    int rc;

    s->stop = 0;
    rc = -pthread_create(&s->thread, NULL, scheduler_thread, s);
    if (rc)
        err_set(err, rc, "start the scheduler's thread: %s", strerror(-rc));
    s->thread_started = !rc;
    return rc;
}

static int csd_masters(struct stream *stream, uint64_t step, struct params_source *out,
                       struct err *err)
{
    struct scheduler *s = of(stream);
    int               rc = scheduler_failed(s, err);

    assert(s->ask == ASK_NONE);
    if (!rc)
        rc = master_reader_open(&s->masters, &s->dev, err);
    if (rc)
        return rc;
    thread_stop(s);
    s->masters.meter = s->meter;
    s->masters.step = step;
    for (size_t i = 0; i < s->dev.store.n_subs; i++)
        s->masters.subs[i] = s->subs[i].newest;
    *out = (struct params_source){ master_reader_read, &s->masters };
    return 0;
}

static int csd_masters_end(struct stream *stream, struct err *err)
{
    struct scheduler *s = of(stream);

    master_reader_close(&s->masters);
    return thread_start(s, err);
}

static uint64_t csd_applied(const struct stream *stream)
{
    return ((const struct scheduler *)stream)->applied;
}

static struct meter *csd_meter(struct stream *stream)
{
    return of(stream)->meter;
}

/* ---- set-up */

/* Of one frame, gradient buffer, packed gradient and streamed residual for the blocks [first, end).
 */
struct buffer_sizes { size_t wire, grad, pack, residual; };
static struct buffer_sizes buffers_of(const struct run_config *cfg, const struct store *st,
                                      size_t first, size_t end)
{
    struct buffer_sizes b = { 0 };

    for (size_t i = first; i < end; i++) {
        size_t pad = store_pad(cfg->block_params[i]);

        b.wire =
            pad * dtype_bytes(cfg->wire_dt) > b.wire ? pad * dtype_bytes(cfg->wire_dt) : b.wire;
        b.grad = pad * 4 > b.grad ? pad * 4 : b.grad;
    }
    b.pack = grads_pack_bytes(st, first, end);
    b.residual = cfg->error_feedback && !cfg->residual_in_ram ? b.grad : 0;
    return b;
}

static size_t residual_ram_bytes(const struct run_config *cfg)
{
    size_t bytes = 0;

    for (size_t b = 0; cfg->error_feedback && b < cfg->n_blocks; b++)
        bytes += store_residual_bytes(store_pad(cfg->block_params[b]));
    return bytes;
}

/* Frames and gradient buffers (layers', then the embeddings', then the final norm's), records'
 * buffers and residuals. */
static void buffers_lay(void *ctx, const struct store *st, struct arena *a)
{
    struct scheduler        *s = ctx;
    const struct run_config *cfg = &s->cfg;
    size_t                   L = s->n_layer;
    struct buffer_sizes kind[3] = { buffers_of(cfg, st, 1, L + 1), buffers_of(cfg, st, 0, 1),
                                    buffers_of(cfg, st, L + 1, L + 2) };

    for (size_t i = 0; i < s->n_frames + 2; i++)
        s->frames[i].wire = arena_take(a, kind[i < s->n_frames ? 0 : i - s->n_frames + 1].wire);
    for (size_t i = 0; i < s->n_gbufs + 2; i++) {
        const struct buffer_sizes *k = &kind[i < s->n_gbufs ? 0 : i - s->n_gbufs + 1];

        s->gbufs[i].grad = arena_take(a, k->grad);
        s->gbufs[i].pack = arena_take(a, k->pack);
        s->gbufs[i].residual = arena_take(a, k->residual);
    }
    for (size_t i = 0; i < s->records.n_buffers; i++)
        s->records.buffers[i].values = arena_take(a, records_buffer(cfg));
    for (size_t b = 0; s->residuals && b < cfg->n_blocks; b++)
        s->residuals[b].values = arena_take(a, store_residual_bytes(store_pad(cfg->block_params[b])));
}

static size_t slots_total(const struct store *st)
{
    size_t slots = 0;

    for (size_t c = 0; c < st->n_classes; c++)
        slots += st->classes[c].slots;
    return slots;
}

/* About what the tables hold: it matters where --csd-mem is so small that there are a great many
 * subgroups. */
static size_t tables_bytes(const struct store *st)
{
    size_t each = sizeof(struct sub) + sizeof(struct store_sub) + sizeof(struct grads_part) +
                  2 * sizeof(struct csd_segment) + sizeof(struct journal_sub) +
                  sizeof(struct journal_grad);

    return st->n_subs * each + slots_total(st) * (sizeof(uint32_t) + 1) +
           st->n_blocks * st->n_devices * sizeof(struct shard_read);
}

static int tables_open(struct scheduler *s, const struct store *st, struct err *err)
{
    size_t              slots = slots_total(st), most_subs = 0;

    for (size_t b = 0; b < st->n_blocks; b++) {
        size_t subs = st->block_sub[b + 1] - st->block_sub[b];

        most_subs = subs > most_subs ? subs : most_subs;
    }
    s->uses = calloc(order_max(s->n_layer), sizeof *s->uses);
    s->frames = calloc(s->n_frames + 2, sizeof *s->frames);
    s->shard_reads = calloc((s->n_frames + 2) * st->n_devices, sizeof *s->shard_reads);
    s->gbufs = calloc(s->n_gbufs + 2, sizeof *s->gbufs);
    s->residuals = s->cfg.residual_in_ram ? calloc(st->n_blocks, sizeof *s->residuals) : NULL;
    s->subs = calloc(st->n_subs, sizeof *s->subs);
    s->free = calloc(st->n_classes, sizeof *s->free);
    s->free_slots = calloc(slots, sizeof *s->free_slots);
    s->queue = calloc(st->n_subs, sizeof *s->queue);
    s->queue_first = calloc(st->n_devices + 1, sizeof *s->queue_first);
    s->queue_next = calloc(st->n_devices, sizeof *s->queue_next);
    s->updating = calloc(st->n_devices, sizeof *s->updating);
    s->flushes = calloc(st->n_devices, sizeof *s->flushes);
    s->scratch = aligned_alloc(64, round_up(grads_scratch(st), 64));
    s->meter = meter_new(MAX_SPANS, st->n_devices);
    if (!s->uses || !s->frames || !s->shard_reads || !s->gbufs || !s->subs || !s->free ||
        !s->free_slots || !s->queue || !s->queue_first || !s->queue_next || !s->updating ||
        !s->flushes || !s->scratch || !s->meter || (s->cfg.residual_in_ram && !s->residuals))
        return err_set(err, -ENOMEM, "out of memory for the tables of %zu subgroups", st->n_subs);
    for (size_t i = 0; i < s->n_frames + 2; i++) {
        s->frames[i].block = SIZE_MAX;
        s->frames[i].shards = s->shard_reads + i * st->n_devices;
    }
    for (size_t i = 0; i < s->n_gbufs + 2; i++) {
        s->gbufs[i].parts = calloc(most_subs, sizeof *s->gbufs[i].parts);
        if (!s->gbufs[i].parts)
            return err_set(err, -ENOMEM, "out of memory for gradient buffers");
    }
    return records_open(s, err);
}

/* Each device's subgroups in order of blocks: the order of its updates. */
static void queues_fill(struct scheduler *s)
{
    size_t n = 0;

    for (size_t d = 0; d < s->dev.n; d++) {
        s->queue_first[d] = n;
        for (size_t i = 0; i < s->dev.store.n_subs; i++)
            if (s->dev.store.subs[i].device == d)
                s->queue[n++] = i;
    }
    s->queue_first[s->dev.n] = n;
}

/* Collects weight-decay pieces; counts only while `segments` is NULL. */
struct decay_collect { struct csd_segment *segments; size_t n; };
static void decay_emit(void *ctx, size_t offset, size_t count, float weight_decay)
{
    struct decay_collect *c = ctx;

    if (c->segments)
        c->segments[c->n] =
            (struct csd_segment){ .first = offset, .n = count, .weight_decay = weight_decay };
    c->n++;
}

static int segments_fill(struct scheduler *s, struct err *err)
{
    const struct store  *st = &s->dev.store;
    struct decay_collect c = { 0 };

    for (size_t i = 0; i < st->n_subs; i++)
        s->cfg.decay(s->cfg.decay_ctx, st->subs[i].block, st->subs[i].first, st->subs[i].n,
                     decay_emit, &c);
    s->segments = calloc(c.n, sizeof *s->segments);
    if (!s->segments)
        return err_set(err, -ENOMEM, "out of memory for %zu weight-decay ranges", c.n);
    c = (struct decay_collect){ .segments = s->segments };
    for (size_t i = 0; i < st->n_subs; i++) {
        size_t from = c.n;

        s->cfg.decay(s->cfg.decay_ctx, st->subs[i].block, st->subs[i].first, st->subs[i].n,
                     decay_emit, &c);
        s->subs[i].segments = s->segments + from;
        s->subs[i].n_segments = c.n - from;
    }
    return 0;
}

/* Every slot that the journal does not name is free. */
static int free_fill(struct scheduler *s, const struct journal_sub *subs, struct err *err)
{
    const struct store *st = &s->dev.store;
    size_t              slots = slots_total(st);
    unsigned char      *taken = calloc(slots, 1);
    uint32_t           *at = s->free_slots;
    int rc = taken ? 0 : err_set(err, -ENOMEM, "out of memory for a map of %zu slots", slots);

    for (size_t c = 0; c < st->n_classes; at += st->classes[c++].slots)
        s->free[c].slots = at;
    for (size_t i = 0; !rc && i < st->n_subs; i++) {
        size_t c = st->subs[i].class_, base = (size_t)(s->free[c].slots - s->free_slots);

        if (subs[i].slot >= st->classes[c].slots || taken[base + subs[i].slot]++)
            rc = err_set(err, -EBADMSG, "%s/run.db: the journal gives subgroup %zu the slot %u "
                         "of device %zu, which is another's or not there",
                         s->cfg.dir, i, subs[i].slot, st->subs[i].device);
    }
    for (size_t c = 0; !rc && c < st->n_classes; c++)
        for (uint32_t slot = 0; slot < st->classes[c].slots; slot++)
            if (!taken[(size_t)(s->free[c].slots - s->free_slots) + slot])
                s->free[c].slots[s->free[c].n++] = slot;
    free(taken);
    return rc;
}

/* The journal's map into subs. */
static int map_fill(struct scheduler *s, struct err *err)
{
    const struct store  *st = &s->dev.store;
    struct journal_sub  *subs = calloc(st->n_subs, sizeof *subs);
    struct journal_grad *grads = calloc(st->n_subs, sizeof *grads);
    int                  rc;

    rc = subs && grads
             ? journal_open(&s->journal, s->cfg.log, st->n_subs, &s->state, subs, grads, err)
             : err_set(err, -ENOMEM, "out of memory for the journal");
    if (!rc)
        rc = free_fill(s, subs, err);
    for (size_t i = 0; !rc && i < st->n_subs; i++) {
        s->subs[i].newest = s->subs[i].committed = subs[i];
        s->subs[i].grad = grads[i];
        s->subs[i].reach = REACH_UNKNOWN;
        s->subs[i].grad_most = INFINITY;
        if (subs[i].version > s->state.applied || subs[i].version + 1 < s->state.applied)
            rc = err_set(err, -EBADMSG,
                         "%s/run.db: subgroup %zu is at version %llu, but the last commit at %llu",
                         s->cfg.dir, i, (unsigned long long)subs[i].version,
                         (unsigned long long)s->state.applied);
    }
    free(subs);
    free(grads);
    return rc;
}

static int residuals_fill(struct scheduler *s, struct err *err)
{
    size_t    n = s->dev.store.n_subs;
    uint32_t *crc = calloc(n, sizeof *crc);
    int       rc = crc ? journal_open_residuals(s->journal, n, crc, err)
                       : err_set(err, -ENOMEM, "out of memory for the journal");

    for (size_t i = 0; !rc && i < n; i++)
        s->subs[i].residual_crc = crc[i];
    free(crc);
    return rc;
}

/* What commit A decided and a crash left undone is done first, as soon as the thread runs. */
static void redo_begin(struct scheduler *s)
{
    s->applied = s->running_version = s->state.applied;
    s->running = s->state.optim;
    scheduler_count(s);
    scheduler_queue(s);
    if (s->to_update == 0)
        return;
    s->redo = 1;
    s->ask = ASK_RUNNING;
}

static void csd_close(struct stream *stream)
{
    struct scheduler *s = of(stream);

    thread_stop(s);
    master_reader_close(&s->masters);
    devices_close(&s->dev); // waits for jobs in flight
    journal_close(s->journal);
    meter_free(s->meter);
    for (size_t i = 0; s->gbufs && i < s->n_gbufs + 2; i++)
        free(s->gbufs[i].parts);
    free(s->scratch);
    free(s->segments);
    free(s->uses);
    free(s->frames);
    free(s->shard_reads);
    free(s->gbufs);
    free(s->residuals);
    records_close(s);
    free(s->subs);
    free(s->free);
    free(s->free_slots);
    free(s->queue);
    free(s->queue_first);
    free(s->queue_next);
    free(s->updating);
    free(s->flushes);
    pthread_mutex_destroy(&s->mutex);
    pthread_cond_destroy(&s->changed);
    free(s);
}

static const struct stream_ops csd_ops_ = {
    .name = "csd",
    .begin = csd_begin,
    .expect = csd_expect,
    .acquire = csd_acquire,
    .release = csd_release,
    .grad = csd_grad,
    .send_grad = csd_send_grad,
    .push = records_push,
    .pushed = records_pushed,
    .pop = records_pop,
    .popped = records_popped,
    .update = csd_update,
    .drain = csd_drain,
    .masters = csd_masters,
    .masters_end = csd_masters_end,
    .applied = csd_applied,
    .meter = csd_meter,
    .close = csd_close,
};

int stream_csd_open(struct stream **out, const struct run_config *cfg, char *notice,
                    size_t notice_size, struct err *err)
{
    struct scheduler *s = calloc(1, sizeof *s);
    struct store      st = { 0 };
    struct devices_more more = { .lay = buffers_lay, .ctx = s, .notice = notice,
                                 .notice_size = notice_size };
    int               rc;

    if (!s)
        return err_set(err, -ENOMEM, "out of memory for the stream");
    s->base.ops = &csd_ops_;
    s->cfg = *cfg;
    s->cfg.residual_in_ram = cfg->error_feedback && cfg->residual_in_ram;
    s->n_layer = cfg->n_blocks - 2;
    s->n_frames = cfg->frames;
    s->n_gbufs = cfg->grad_buffers;
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->changed, NULL);

    rc = devices_layout(&st, cfg, err);
    if (!rc)
        rc = tables_open(s, &st, err);
    if (!rc)
        rc = devices_open(&s->dev, cfg, DEVICES_TRAIN, &more, err);
    if (!rc)
        rc = segments_fill(s, err);
    if (!rc)
        rc = map_fill(s, err);
    if (!rc && cfg->error_feedback)
        rc = residuals_fill(s, err);
    if (rc)
        goto out;
    queues_fill(s);
    redo_begin(s);
    rc = thread_start(s, err);

out:
    store_release(&st);
    if (rc)
        csd_close(&s->base);
    else
        *out = &s->base;
    return rc;
}

int stream_csd_memory(const struct run_config *cfg, struct run_memory *out, struct err *err)
{
    struct store        st;
    struct buffer_sizes e, l, f;
    size_t              L = cfg->n_blocks - 2;
    int                 rc = devices_layout(&st, cfg, err);

    if (rc)
        return rc;
    e = buffers_of(cfg, &st, 0, 1);
    l = buffers_of(cfg, &st, 1, L + 1);
    f = buffers_of(cfg, &st, L + 1, L + 2);
    *out = (struct run_memory){
        .layer_frame = l.wire,
        .layer_grad = l.grad + l.pack,
        .frames = e.wire + f.wire + cfg->frames * l.wire,
        .grads = e.grad + e.pack + f.grad + f.pack + cfg->grad_buffers * (l.grad + l.pack),
        .compress = grads_scratch(&st),
        .spans = 2 * MAX_SPANS * sizeof(struct runlog_span),
        .tables = tables_bytes(&st) + records_tables(cfg),
        .residual_ram = residual_ram_bytes(cfg),
        .residual_ends = cfg->error_feedback ? e.grad + f.grad : 0,
        .residual_layer = cfg->error_feedback ? l.grad : 0,
        .arenas = cfg->n_devices *
                  cfg->csd->memory(&(struct csd_config){ .update_params = st.max_pad,
                                                         .moments = st.moments,
                                                         .wire_dt = st.wire_dt,
                                                         .naive = cfg->mode == RUN_SU }),
    };
    out->masters = master_reader_bytes(&st);
    out->record_buffer = records_buffer(cfg);
    for (size_t d = 0; d < cfg->n_devices; d++)
        out->device_bytes += st.device_bytes[d] + records_device(cfg);
    store_release(&st);
    return 0;
}
