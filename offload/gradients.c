/* gradients.c: gradients and residuals, between the model and the devices. */
#include "offload/gradients.h"

#include "csd/grad_wire.h"
#include "data/base/clock.h"
#include "data/base/crc32c.h"
#include "data/base/round.h"
#include "kernels/elementwise.h"

#include <assert.h>
#include <math.h>

/* Of one group's gradient of a block; devices get its end padded. */
static size_t group_bytes(const struct run_config *cfg, size_t block)
{
    return sizeof(float) * store_pad(run_whole(cfg, block));
}

struct gradient_bytes gradients_bytes(const struct run_config *cfg, const struct store *st,
                                      struct order_span of)
{
    struct gradient_bytes b = { 0 };

    for (size_t i = of.first; i < of.end; i++) {
        size_t n = st->block_params[i], subs = st->block_sub[i + 1] - st->block_sub[i];

        b.grad = size_max(b.grad, group_bytes(cfg, i) * run_groups(cfg));
        if (st->compress > 0)
            b.pack = size_max(b.pack, topk_count(n, st->compress) * sizeof(struct topk_pair) +
                                          subs * (GRAD_WIRE_HEADER + GRAD_WIRE_ALIGN));
    }
    b.pack = round_up(b.pack, GRAD_WIRE_ALIGN);
    b.residual = st->error_feedback ? b.grad / run_groups(cfg) : 0;
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
    g->n_groups = run_groups(cfg);
    g->nodes = arena_take(a, g->n_groups * sizeof *g->nodes);
    g->group = arena_take(a, g->n_groups * sizeof *g->group);
    g->began = arena_take(a, g->n_bufs * g->n_groups);
    exchange_tables(&g->exchange, cfg, a);
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
            cfg, st, order_buffer_blocks(&cfg->order, ORDER_GRADS, cfg->grad_buffers, i));

        g->bufs[i].grad = arena_take(a, b.grad);
        g->bufs[i].stride = b.grad / sizeof(float) / g->n_groups;
        g->bufs[i].began = g->began + i * g->n_groups;
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

int gradients_lend(struct gradients *g, size_t block, size_t group, float **grad, int *fresh,
                   struct err *err)
{
    struct gbuf *b = buffer_of(g, block);
    size_t       n = run_whole(&g->hub->cfg, block);
    int          asked = 0;
    struct hub_wait wait = { .block = (int)block };

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
            memset(b->began, 0, g->n_groups);
        }
    }
    hub_waited(g->hub, &wait);
    *fresh = !b->began[group];
    b->began[group] = 1;
    *grad = b->grad + group * b->stride;
    if (*fresh) // what devices get behind its end; the rest is written by whoever asked
        floats_zero(*grad + n, store_pad(n) - n);
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

        *p = (struct grad_part){ .bytes = b->own + u->first, .n_bytes = 4 * u->n_pad,
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

/* The gradients of this rank's groups, added as far as the tree goes: from the buffer's beginning
 * on. */
static void groups_add(struct gradients *g, struct gbuf *b)
{
    const struct run_ranks *r = &g->hub->cfg.ranks;
    size_t                  n = run_whole(&g->hub->cfg, b->block), left;

    for (size_t i = 0; i < g->n_groups; i++) {
        assert(b->began[i]);
        g->nodes[i] = (struct sum_node){ 0, r->rank * g->n_groups + i };
        g->group[i] = b->grad + i * b->stride;
    }
    left = sum_merge(g->nodes, g->group, g->n_groups, r->groups, n);
    for (size_t i = 1; i < left; i++)
        if (g->group[i] != b->grad + i * b->stride)
            memcpy(b->grad + i * b->stride, g->group[i], n * sizeof *b->grad);
    b->own = b->grad + run_first(&g->hub->cfg, b->block);
}

/* It is complete, but for what other ranks have: they get theirs. */
static int send_to_ranks(struct gradients *g, struct gbuf *b, struct err *err)
{
    hub_enter(g->hub);
    g->sent++;
    b->state = GBUF_SENT;
    return hub_leave(g->hub, 1, err);
}

/* The merger's: a portion that all ranks' parts have been added to. */
static void portion_form(void *gradients, size_t block)
{
    struct gradients *g = gradients;
    struct gbuf      *b = buffer_of(g, block);
    double            sum = 0;

    for (size_t k = 0; k < exchange_sums(&g->exchange, block); k++)
        sum += exchange_sum(&g->exchange, block)[k];
    b->most = sqrt(sum);
    form_dense(g, b);
}

int gradients_send(struct gradients *g, size_t block, struct stream_norm *norm, struct err *err)
{
    struct gbuf *b = buffer_of(g, block);
    uint64_t     start = clock_ns();
    size_t       n = g->hub->dev.store.block_params[block];
    int          overflow = 0, compress = g->hub->cfg.compress > 0, rc;
    struct hub_wait wait = { .block = (int)block };

    assert(b->state == GBUF_LENT && b->block == block);
    assert(order_block(&g->hub->cfg.order, STREAM_TRAIN, ORDER_SEND, g->sent) == block);
    groups_add(g, b);
    if (g->hub->cfg.ranks.size > 1)
        return send_to_ranks(g, b, err);
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
    g->sent++;
    g->written += norm->nonfinite ? 1 : 0; // the step will be skipped, nothing of it be written
    b->state = norm->nonfinite ? GBUF_FREE : GBUF_QUEUED;
    if (g->residuals && (overflow || !norm->nonfinite))
        g->residuals[block].held = overflow ? HELD_NONE : HELD_NEXT;
    return hub_leave(g->hub, 1, err);
}

int gradients_norm(struct gradients *g, struct stream_norm *norm, struct err *err)
{
    struct hub_wait wait = { .block = -1 };

    if (g->hub->cfg.ranks.size < 2)
        return 0;
    hub_enter(g->hub);
    while (g->merged < g->sent && hub_wait(g->hub, &wait, PHASE_WAIT_GRADIENT))
        ;
    hub_waited(g->hub, &wait);
    int rc = hub_leave(g->hub, 0, err);
    return rc ? rc : exchange_norm(&g->exchange, norm, err);
}

int gradients_open(struct gradients *g, struct err *err)
{
    g->exchange.hub = g->hub;
    g->exchange.ready = portion_form;
    g->exchange.ctx = g;
    return exchange_open(&g->exchange, err);
}

int gradients_give_up(struct gradients *g) { return exchange_give_up(&g->exchange); }

void gradients_close(struct gradients *g) { exchange_close(&g->exchange); }

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

/* What is merged is to be written, and the next one in the order of sending is exchanged. */
static int exchanges_advance(struct gradients *g, struct err *err)
{
    struct exchange *x = &g->exchange;
    int              rc = 0;

    if (g->hub->cfg.ranks.size < 2)
        return 0;
    rc = exchange_advance(x, err);

    if (rc < 0)
        return rc;
    if (exchange_state(x) == EXCHANGE_MERGED) {
        buffer_of(g, x->block)->state = GBUF_QUEUED;
        exchange_end(x);
        g->merged++;
        rc = 1;
    }
    if (exchange_state(x) != EXCHANGE_IDLE || g->merged == g->sent)
        return rc;
    size_t       block = order_block(&g->hub->cfg.order, STREAM_TRAIN, ORDER_SEND, g->merged);
    struct gbuf *b = buffer_of(g, block);
    int          failed = exchange_begin(x, block, b->grad, b->stride, err);
    return failed ? failed : 1;
}

int gradients_advance(struct gradients *g, struct err *err)
{
    const struct store *st = &g->hub->dev.store;
    int                 progress = exchanges_advance(g, err);

    if (progress < 0)
        return progress;

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
        if (writes && first == end) { // this rank has nothing of it
            b->state = GBUF_FREE;
            g->written++;
        }
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
    g->sent = g->written = g->merged = 0;
    for (size_t i = 0; i < g->hub->dev.store.n_subs; i++) {
        struct sub *u = &g->subs->sub[i];

        u->written = 0;
        if (!skip)
            u->residual_crc = u->residual_next;
    }
}
