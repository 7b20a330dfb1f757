/* gradients.c: gradients and residuals, between the model and the devices. */
#include "offload/gradients.h"

#include "csd/grad_wire.h"
#include "data/base/clock.h"
#include "data/base/crc32c.h"
#include "data/base/round.h"
#include "kernels/elementwise.h"

#include <assert.h>

struct gradient_bytes gradients_bytes(const struct store *st, struct order_span of)
{
    struct gradient_bytes b = { 0 };

    for (size_t i = of.first; i < of.end; i++) {
        size_t n = st->block_params[i], subs = st->block_sub[i + 1] - st->block_sub[i];

        b.grad = size_max(b.grad, sizeof(float) * store_pad(n));
        if (st->compress > 0)
            b.pack = size_max(b.pack, topk_count(n, st->compress) * sizeof(struct topk_pair) +
                                          subs * (GRAD_WIRE_HEADER + GRAD_WIRE_ALIGN));
    }
    b.pack = round_up(b.pack, GRAD_WIRE_ALIGN);
    b.residual = st->error_feedback ? b.grad : 0;
    return b;
}

void gradients_tables(struct gradients *g, const struct store *st, struct arena *a)
{
    const struct run_config *cfg = &g->hub->cfg;
    struct grad_work         work = grad_work(st->n_blocks, st->block_params, st->compress);

    g->n_bufs = order_buffers(&cfg->order, ORDER_GRADS, cfg->grad_buffers);
    g->bufs = arena_take(a, g->n_bufs * sizeof *g->bufs);
    g->residuals =
        cfg->residual_in_ram ? arena_take(a, st->n_blocks * sizeof *g->residuals) : NULL;
    g->parts = arena_take(a, st->n_subs * sizeof *g->parts);
    g->writes = arena_take(a, st->n_subs * sizeof *g->writes);
    g->feedback = st->error_feedback ? arena_take(a, st->n_subs * sizeof *g->feedback) : NULL;
    g->pairs = arena_take(a, work.pairs);
    g->scratch = arena_take(a, work.scratch);
}

void gradients_lay(struct gradients *g, const struct store *st, struct arena *a)
{
    const struct run_config *cfg = &g->hub->cfg;

    for (size_t i = 0; i < g->n_bufs; i++) {
        struct gradient_bytes b = gradients_bytes(
            st, order_buffer_blocks(&cfg->order, ORDER_GRADS, cfg->grad_buffers, i));

        g->bufs[i].grad = arena_take(a, b.grad);
        g->bufs[i].pack = arena_take(a, b.pack);
        g->bufs[i].residual = g->residuals ? NULL : arena_take(a, b.residual);
    }
    for (size_t b = 0; g->residuals && b < st->n_blocks; b++)
        g->residuals[b].values =
            arena_take(a, store_residual_bytes(store_pad(st->block_params[b])));
}

/* ---- the model's side */

static struct gbuf *buffer_of(struct gradients *g, size_t block)
{
    const struct run_config *cfg = &g->hub->cfg;

    return &g->bufs[order_buffer(&cfg->order, ORDER_GRADS, cfg->grad_buffers, block)];
}

/* A gradient that begins: have what its block owes read beside it, unless RAM has it; whether it is
 * to be read. Lock held. */
static int residual_ask(struct gradients *g, struct gbuf *b)
{
    struct residual *r = g->residuals ? &g->residuals[b->block] : NULL;

    if (r)
        b->residual = r->values;
    if (!g->feedback || (r && r->held != HELD_NONE))
        return 0;
    if (r)
        r->held = HELD_COMMITTED;
    b->asked = RESIDUAL_ASKED;
    return 1;
}

int gradients_lend(struct gradients *g, size_t block, float **grad, int *fresh, struct err *err)
{
    struct gbuf *b = buffer_of(g, block);
    size_t       n = g->hub->dev.store.block_params[block];
    int          asked = 0;
    struct hub_wait wait = { .block = (int)block };

    *fresh = 0;
    hub_enter(g->hub);
    if (b->state != GBUF_LENT || b->block != block) {
        while ((b->state != GBUF_FREE || g->ended) &&
               hub_wait(g->hub, &wait, g->ended ? PHASE_WAIT_COMMIT : PHASE_WAIT_GRADIENT))
            ;
        if (!g->hub->failed) { // else it may be on its way to a device still
            b->state = GBUF_LENT;
            b->block = block;
            b->step = g->hub->step;
            asked = residual_ask(g, b);
            *fresh = 1;
        }
    }
    hub_waited(g->hub, &wait);
    if (*fresh) // what devices get behind its end; the rest is written by whoever asked
        floats_zero(b->grad + n, store_pad(n) - n);
    *grad = b->grad;
    return hub_leave(g->hub, asked, err);
}

/* A block's parts as they stand in its gradient. */
static void form_dense(struct gradients *g, struct gbuf *b)
{
    const struct store *st = &g->hub->dev.store;

#pragma omp parallel for schedule(dynamic)
    for (size_t i = st->block_sub[b->block]; i < st->block_sub[b->block + 1]; i++) {
        const struct store_sub *u = &st->subs[i];
        struct grad_part       *p = &g->parts[i];

        *p = (struct grad_part){ .bytes = b->grad + u->first, .n_bytes = 4 * u->n_pad,
                                 .payload = 4 * u->n };
        p->sum.crc = crc32c(0, p->bytes, p->n_bytes);
    }
}

/* What was sent is no longer owed. */
static void residual_settle(struct gradients *g, struct gbuf *b, size_t k)
{
    const struct store *st = &g->hub->dev.store;

    for (size_t i = 0; i < k; i++)
        b->residual[g->pairs[i].index] = 0.0f;
#pragma omp parallel for schedule(dynamic)
    for (size_t i = st->block_sub[b->block]; i < st->block_sub[b->block + 1]; i++)
        g->parts[i].residual_crc = crc32c(0, b->residual + st->subs[i].first,
                                          store_residual_bytes(st->subs[i].n_pad));
}

/* Top-K of the whole block, packed for each subgroup. With error feedback the residual, added
 * before, then is what this step does not send. 1 if the two together are not finite: then nothing
 * is packed, and the residual is of no use. */
static int form_pairs(struct gradients *g, struct gbuf *b)
{
    const struct store *st = &g->hub->dev.store;
    size_t n = st->block_params[b->block], k = topk_count(n, st->compress), at = 0;
    float *residual = g->feedback ? b->residual : NULL;
    char  *to = b->pack;

    if (grad_select(g->pairs, k, b->grad, residual, residual, n, g->scratch, &b->most))
        return 1;
    for (size_t i = st->block_sub[b->block]; i < st->block_sub[b->block + 1]; i++) {
        const struct store_sub *u = &st->subs[i];
        struct grad_part       *p = &g->parts[i];
        size_t                  from = at;

        while (at < k && g->pairs[at].index < u->first + u->n)
            at++;
        *p = (struct grad_part){ .sum.pairs = at - from, .bytes = to,
                                 .n_bytes = grad_wire_bytes(at - from),
                                 .payload = (at - from) * sizeof *g->pairs };
        grad_wire_pack(to, g->pairs + from, at - from, u->first, u->n);
        p->sum.crc = crc32c(0, to, p->n_bytes);
        to += p->n_bytes;
    }
    if (residual)
        residual_settle(g, b, k);
    return 0;
}

int gradients_send(struct gradients *g, size_t block, struct stream_norm *norm, struct err *err)
{
    struct gbuf *b = buffer_of(g, block);
    uint64_t     start = clock_ns();
    size_t       n = g->hub->dev.store.block_params[block];
    int          overflow = 0, compress = g->hub->cfg.compress > 0, rc;
    struct hub_wait wait = { .block = (int)block };

    assert(b->state == GBUF_LENT && b->block == block);
    b->most = grad_norm(norm, block, b->grad, n, g->scratch);
    meter_span(g->hub->meter, b->step, PHASE_GRAD_NORM, (int)block, -1, start, clock_ns(),
               sizeof(float) * n);
    hub_enter(g->hub);
    while (b->asked != RESIDUAL_READY && hub_wait(g->hub, &wait, PHASE_WAIT_RESIDUAL))
        ;
    hub_waited(g->hub, &wait);
    if ((rc = hub_leave(g->hub, 0, err)))
        return rc;
    start = clock_ns();
    if (!norm->nonfinite && compress)
        overflow = form_pairs(g, b);
    else if (!norm->nonfinite)
        form_dense(g, b);
    if (overflow)
        stream_norm_flag(norm, block);
    meter_span(g->hub->meter, b->step, compress ? PHASE_GRAD_COMPRESS : PHASE_GRAD_NORM,
               (int)block, -1, start, clock_ns(), sizeof(float) * n);

    hub_enter(g->hub);
    assert(order_block(&g->hub->cfg.order, STREAM_TRAIN, ORDER_SEND, g->sent) == block);
    g->sent++;
    g->written += norm->nonfinite ? 1 : 0; // the step will be skipped, nothing of it be written
    b->state = norm->nonfinite ? GBUF_FREE : GBUF_QUEUED;
    if (g->residuals && (overflow || !norm->nonfinite))
        g->residuals[block].held = overflow ? HELD_NONE : HELD_NEXT;
    return hub_leave(g->hub, 1, err);
}

/* ---- the scheduler's side */

static void part_written(struct gradients *g, struct gbuf *b)
{
    if (--b->unwritten == 0) {
        b->state = GBUF_FREE;
        g->written++;
    }
}

static void grad_done(void *part, struct task *t)
{
    struct gradients *g = part;

    g->subs->sub[t->sub].written = 1;
    part_written(g, t->job.user);
}

static void residual_done(void *part, struct task *t)
{
    struct gbuf *b = t->job.user;

    if (t->job.kind == CSD_WRITE)
        part_written(part, b);
    else if (--b->unread == 0)
        b->asked = RESIDUAL_READY;
}

/* The committed one is read (the model asks when the commit A before is through, so `state` says
 * which it is), and the next one is written into the other area. */
static void residual_submit(struct gradients *g, struct gbuf *b, size_t i, enum csd_kind kind)
{
    static const struct task_kind reading = { TASK_OF_SUBGROUP, residual_done, "residual", "is" };
    static const struct task_kind writing = { TASK_OF_SUBGROUP, residual_done, NULL, NULL };
    const struct store_sub *u = &g->hub->dev.store.subs[i];
    int                     reads = kind == CSD_READ;

    g->feedback[i] = (struct task){
        .kind = reads ? &reading : &writing, .part = g, .sub = i, .step = b->step,
        .phase = reads && g->residuals ? PHASE_SETUP : PHASE_GRAD_WRITE,
        .job = { .kind = kind, .cls = CLASS_RESIDUAL, .buf = b->residual + u->first,
                 .off = store_residual_off(u, g->subs->state.applied + !reads),
                 .bytes = store_residual_bytes(u->n_pad), .payload = sizeof(float) * u->n,
                 .tag = g->subs->sub[i].residual_crc, .user = b },
    };
    hub_submit(g->hub, u->device, &g->feedback[i]);
}

static void grad_submit(struct gradients *g, struct gbuf *b, size_t i)
{
    static const struct task_kind kind = { TASK_OF_SUBGROUP, grad_done, NULL, NULL };
    const struct grad_part *p = &g->parts[i];
    const struct store_sub *at = &g->hub->dev.store.subs[i];
    struct sub             *u = &g->subs->sub[i];

    u->grad = p->sum;
    u->grad_most = b->most;
    g->writes[i] = (struct task){
        .kind = &kind, .part = g, .sub = i, .step = b->step, .phase = PHASE_GRAD_WRITE,
        .job = { .kind = CSD_WRITE, .cls = CLASS_GRADIENT, .buf = p->bytes, .off = at->grad_off,
                 .bytes = p->n_bytes, .payload = p->payload, .user = b },
    };
    b->unwritten++;
    hub_submit(g->hub, at->device, &g->writes[i]);
    if (!g->feedback)
        return;
    u->residual_next = p->residual_crc;
    b->unwritten++;
    residual_submit(g, b, i, CSD_WRITE);
}

int gradients_advance(struct gradients *g)
{
    const struct store *st = &g->hub->dev.store;
    int                 progress = 0;

    for (size_t i = 0; i < g->n_bufs; i++) {
        struct gbuf *b = &g->bufs[i];
        size_t       first = st->block_sub[b->block], end = st->block_sub[b->block + 1];
        int          asks = b->asked == RESIDUAL_ASKED;
        int          writes = b->state == GBUF_QUEUED &&
                              subs_all(g->subs, b->block, g->subs->state.applied, 1);

        if (asks) {
            b->asked = RESIDUAL_READING;
            b->unread = end - first;
        }
        if (writes)
            b->state = GBUF_WRITING;
        for (size_t k = first; asks && k < end; k++)
            residual_submit(g, b, k, CSD_READ);
        for (size_t k = first; writes && k < end; k++)
            grad_submit(g, b, k);
        progress |= asks || writes;
    }
    return progress;
}

void gradients_end(struct gradients *g, int skip)
{
    g->ended = 1;
    for (size_t b = 0; g->residuals && b < run_blocks(&g->hub->cfg); b++)
        if (g->residuals[b].held == HELD_NEXT)
            g->residuals[b].held = skip ? HELD_NONE : HELD_COMMITTED;
}

void gradients_begin(struct gradients *g, int skip)
{
    g->ended = 0;
    g->sent = g->written = 0;
    for (size_t i = 0; i < g->hub->dev.store.n_subs; i++) {
        struct sub *u = &g->subs->sub[i];

        u->written = 0;
        if (!skip)
            u->residual_crc = u->residual_next;
    }
}
