/* gradients.c: lends buffers for gradients to the model, compresses complete ones, and writes them
 * and the residuals to the devices. */
#include "offload/stream/gradients.h"

#include "csd/engine/grad_wire.h"
#include "data/base/clock.h"
#include "data/base/crc32c.h"
#include "data/base/round.h"
#include "kernels/elementwise.h"
#include "kernels/update/reduce.h"

#include <assert.h>
#include <math.h>

/* Bytes of one group's gradient of a block. Its end is padded for the devices. */
static size_t group_bytes(const struct run_config *cfg, size_t block)
{
    return sizeof(float) * store_pad(run_whole(cfg, block));
}

/* Bytes of the pairs of all this rank's groups of a block; their sums need no more. */
static size_t lists_bytes(const struct run_config *cfg, size_t block)
{
    return run_groups(cfg) * topk_count(run_whole(cfg, block), cfg->compress) *
           sizeof(struct topk_pair);
}

struct gradient_bytes gradients_bytes(const struct run_config *cfg, const struct store *st,
                                      struct route_span of)
{
    struct gradient_bytes b = { 0 };
    size_t                one = 0;

    for (size_t i = of.first; i < of.end && run_trains(cfg, of.first); i++) {
        size_t subs = st->block_sub[i + 1] - st->block_sub[i];

        one = size_max(one, group_bytes(cfg, i));
        b.grad = one * grouped_slots(cfg, i, run_pair_sums(cfg)); // equal within a lane
        if (st->compress > 0)
            b.pack = size_max(b.pack, store_pairs(st, i) * sizeof(struct topk_pair) +
                                          subs * (GRAD_WIRE_HEADER + GRAD_WIRE_ALIGN));
        if (run_pair_sums(cfg))
            b.lists = size_max(b.lists, 2 * lists_bytes(cfg, i));
    }
    b.pack = round_up(b.pack, GRAD_WIRE_ALIGN);
    b.lists = round_up(b.lists, GRAD_WIRE_ALIGN);
    b.residual = st->error_feedback ? one : 0; // 0 of frozen blocks
    return b;
}

/* Allocates what adding pairs of groups needs. */
static void pair_sums_tables(struct gradients *g, struct arena *a)
{
    const struct run_config *cfg = &g->sched->cfg;
    size_t                   most = 0, lists = 2 * g->n_groups;

    for (size_t b = 0; b < run_blocks(cfg); b++)
        most = size_max(most, run_trains(cfg, b) ? run_whole(cfg, b) : 0);
    g->pair_scratch = arena_take(a, pair_sum_scratch(g->n_groups));
    g->pair_sums = arena_take(a, reduce_scratch(most));
    for (size_t i = 0; i < g->n_bufs; i++) {
        struct pair_list *of = arena_take(a, lists * sizeof *of);

        if (!g->bufs || !of)
            continue;
        g->bufs[i].lists = of;
        g->bufs[i].nodes = of + g->n_groups;
    }
}

void gradients_tables(struct gradients *g, const struct store *st, struct arena *a)
{
    const struct run_config *cfg = &g->sched->cfg;
    struct grad_work         work = grad_work(cfg);

    g->n_bufs = route_buffers(&cfg->route, ROUTE_GRADS, cfg->grad_buffers);
    g->bufs = arena_take(a, g->n_bufs * sizeof *g->bufs);
    g->residuals =
        cfg->residual_in_ram ? arena_take(a, st->n_blocks * sizeof *g->residuals) : NULL;
    g->n_groups = run_groups(cfg);
    g->alone = cfg->ranks.size < 2;
    g->sums_pairs = run_pair_sums(cfg);
    g->nodes = arena_take(a, SUM_NODES_MOST * sizeof *g->nodes);
    g->leaves = arena_take(a, g->n_groups * sizeof *g->leaves);
    for (size_t i = 0; i < g->n_bufs; i++) {
        char *began = arena_take(a, g->n_groups);

        if (g->bufs && began)
            g->bufs[i].sum.began = began;
    }
    if (g->sums_pairs)
        pair_sums_tables(g, a);
    exchange_tables(&g->exchange, cfg, a);
    g->parts = arena_take(a, st->n_subs * sizeof *g->parts);
    g->writes = arena_take(a, st->n_subs * sizeof *g->writes);
    g->feedback = st->error_feedback ? arena_take(a, st->n_subs * sizeof *g->feedback) : NULL;
    g->pairs = arena_take(a, work.pairs);
    g->scratch = arena_take(a, work.scratch);
}

void gradients_lay(struct gradients *g, const struct store *st, struct arena *a)
{
    const struct run_config *cfg = &g->sched->cfg;

    for (size_t i = 0; i < g->n_bufs; i++) {
        struct route_span of = route_buffer_blocks(&cfg->route, ROUTE_GRADS, cfg->grad_buffers, i);
        struct gradient_bytes b = gradients_bytes(cfg, st, of);
        struct grouped       *sum = &g->bufs[i].sum;

        sum->grad = arena_take(a, b.grad);
        sum->slots = grouped_slots(cfg, of.first, run_pair_sums(cfg));
        sum->stride = b.grad / sizeof(float) / sum->slots;
        g->bufs[i].pack = arena_take(a, b.pack);
        g->bufs[i].room = b.lists ? arena_take(a, b.lists) : NULL;
        g->bufs[i].residual = g->residuals ? NULL : arena_take(a, b.residual);
    }
    for (size_t b = 0; g->residuals && b < st->n_blocks; b++)
        if (run_trains(cfg, b))
            g->residuals[b].values =
                arena_take(a, store_residual_bytes(store_pad(st->block_params[b])));
}

/* ---- the model's side */

static struct gbuf *buffer_of(struct gradients *g, size_t block)
{
    const struct run_config *cfg = &g->sched->cfg;

    return &g->bufs[route_buffer(&cfg->route, ROUTE_GRADS, cfg->grad_buffers, block)];
}

/* Asks for the block's residual when its gradient begins, unless RAM has it. Returns whether it
 * must be read. Lock held. */
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

/* Ends a group's gradient when it is complete: adds it to the others', or selects its pairs. */
static void group_end(struct gradients *g, struct gbuf *b, size_t group)
{
    uint64_t start = clock_ns();

    if (g->sums_pairs) {
        b->lists[group] = (struct pair_list){ b->room + group * b->k, b->k };
        topk_select(b->lists[group].pairs, grouped_at(&b->sum, group), b->n, b->k, g->scratch);
    } else {
        grouped_add(&b->sum, group, b->n);
    }
    if (g->n_groups > 1 || g->sums_pairs)
        meter_span(g->sched->meter, b->step, g->sums_pairs ? PHASE_GRAD_COMPRESS : PHASE_GRAD_NORM,
                   (int)b->block, -1, start, clock_ns(), sizeof(float) * b->n);
}

/* Begins a block's gradient in a free buffer. Returns whether the scheduler has something to do.
 * Lock held. */
static int buffer_begin(struct gradients *g, struct gbuf *b, size_t block)
{
    const struct run_config *cfg = &g->sched->cfg;

    b->state = GBUF_LENT;
    b->block = block;
    b->step = g->sched->step;
    b->n = run_whole(cfg, block);
    b->first = run_first(cfg, block);
    b->k = cfg->compress > 0 ? topk_count(b->n, cfg->compress) : 0;
    grouped_begin(&b->sum, cfg, block);
    return residual_ask(g, b);
}

/* Waits until the block's buffer is free, and takes it for the model, if that has not been done. */
static int buffer_take(struct gradients *g, struct gbuf *b, size_t block, struct err *err)
{
    struct scheduler_wait wait = { .block = (int)block };
    int             asked = 0;

    scheduler_lock(g->sched);
    if (b->state != GBUF_LENT || b->block != block) {
        while ((b->state != GBUF_FREE || g->ended) &&
               scheduler_wait(g->sched, &wait, g->ended ? PHASE_WAIT_COMMIT : PHASE_WAIT_GRADIENT))
            ;
        if (!g->sched->failed) // otherwise a device may still read it
            asked = buffer_begin(g, b, block);
    }
    scheduler_waited(g->sched, &wait);
    return scheduler_unlock(g->sched, asked, err);
}

int gradients_lend(struct gradients *g, size_t block, size_t group, float **grad, int *fresh,
                   struct err *err)
{
    struct gbuf *b = buffer_of(g, block);
    int          rc = buffer_take(g, b, block, err);

    if (rc)
        return rc;
    size_t before = grouped_before(&b->sum, group);
    if (before != GROUPED_NONE)
        group_end(g, b, before);
    *grad = grouped_lend(&b->sum, group, fresh);
    if (*fresh) // zero the padding for devices; whoever asked writes the rest
        floats_zero(*grad + b->n, store_pad(b->n) - b->n);
    return 0;
}

/* Packs a block's pairs for each subgroup. */
static void pairs_pack(struct gradients *g, struct gbuf *b, struct pair_list all)
{
    const struct store *st = &g->sched->dev.store;
    size_t              at = 0;
    char               *to = b->pack;

    for (size_t i = st->block_sub[b->block]; i < st->block_sub[b->block + 1]; i++) {
        const struct store_sub *u = &st->subs[i];
        struct grad_part       *p = &g->parts[i];
        size_t                  first = b->first + u->first, from = at;

        while (at < all.n && all.pairs[at].index < first + u->n)
            at++;
        *p = (struct grad_part){ .sum.pairs = at - from, .bytes = to,
                                 .n_bytes = grad_wire_bytes(at - from),
                                 .payload = (at - from) * sizeof *all.pairs };
        grad_wire_pack(to, all.pairs + from, at - from, first, u->n);
        to += p->n_bytes;
    }
}

/* Prepares a block's parts for writing, and computes their checksums and those of its residual.
 * pairs: what is sent; NULL: the gradient as it stands. residual: what is left; or NULL. */
static void parts_form(struct gradients *g, struct gbuf *b, const struct pair_list *pairs,
                       const float *residual)
{
    const struct store *st = &g->sched->dev.store;

    if (pairs)
        pairs_pack(g, b, *pairs);
#pragma omp parallel for schedule(dynamic)
    for (size_t i = st->block_sub[b->block]; i < st->block_sub[b->block + 1]; i++) {
        const struct store_sub *u = &st->subs[i];
        struct grad_part       *p = &g->parts[i];

        if (!pairs)
            *p = (struct grad_part){ .bytes = b->own + u->first, .n_bytes = 4 * u->n_pad,
                                     .payload = 4 * u->n };
        p->sum.crc = crc32c(0, p->bytes, p->n_bytes);
        if (residual)
            p->residual_crc = crc32c(0, residual + u->first, store_residual_bytes(u->n_pad));
    }
}

/* Adds the pairs of this rank's groups, as far as the tree goes. A single process gets the whole
 * sum, and computes its squares. */
static void lists_add(struct gradients *g, struct gbuf *b)
{
    const struct run_ranks *r = &g->sched->cfg.ranks;
    size_t                  first = r->rank * g->n_groups;
    struct topk_pair       *to = b->room + g->n_groups * b->k;

    for (size_t i = 0; i < g->n_groups; i++)
        g->leaves[i] = (struct sum_node){ 0, first + i };
    for (size_t k = 0; k < g->n_nodes; k++) {
        size_t          from = sum_first(g->nodes[k]) - first;
        struct pair_sum s = { .lists = b->lists + from, .nodes = g->leaves + from,
                              .n_lists = sum_end(g->nodes[k], r->groups) - first - from,
                              .groups = r->groups, .n = b->n, .scratch = g->pair_scratch };

        b->nodes[k].pairs = to;
        b->nodes[k].n = pair_sum(&s, to, g->alone ? g->pair_sums : NULL);
        to += b->nodes[k].n;
    }
}

/* Ends the groups that are complete only now, and adds what all groups of this rank have. */
static void groups_end(struct gradients *g, struct gbuf *b)
{
    struct route_span last = grouped_last(&b->sum);

    for (size_t i = last.first; i < last.end; i++)
        group_end(g, b, i);
    if (g->sums_pairs) {
        lists_add(g, b);
        return;
    }
    assert(b->sum.held == g->n_nodes);
    b->own = b->sum.x[0] + b->first;
}

/* Called by the merger, when all ranks' parts of a portion are added. */
static void portion_form(void *gradients, size_t block)
{
    struct gradients *g = gradients;
    struct gbuf      *b = buffer_of(g, block);
    double            sum = 0;

    for (size_t k = 0; k < exchange_sums(&g->exchange, block); k++)
        sum += exchange_sum(&g->exchange, block)[k];
    b->most = sqrt(sum);
    parts_form(g, b, g->sums_pairs ? &g->exchange.merged : NULL, NULL);
}

/* For a single process: adds the norm of the sum of several groups' pairs. */
static double pairs_norm(struct gradients *g, struct gbuf *b, struct norm_sum *norm)
{
    double sum = 0;

    for (size_t i = 0; i < div_up(b->n, REDUCE_BLOCK); i++)
        sum += g->pair_sums[i];
    if (!isfinite(sum))
        norm_sum_flag(norm, b->block);
    norm->sumsq += sum;
    return sqrt(norm->sumsq);
}

/* For a single process: forms what is sent. Of a whole block it selects the Top-K. With error
 * feedback, the residual is added before; what remains in it is not sent in this step. Returns 1 if
 * that sum is not finite: then nothing is formed, and the residual is useless. */
static int form(struct gradients *g, struct gbuf *b)
{
    struct pair_list pairs = g->sums_pairs ? b->nodes[0] : (struct pair_list){ g->pairs, b->k };
    float           *residual = g->feedback ? b->residual : NULL;

    if (b->k && !g->sums_pairs &&
        grad_select(g->pairs, b->k, b->own, residual, residual, b->n, g->scratch, &b->most))
        return 1;
    for (size_t i = 0; residual && i < pairs.n; i++)
        residual[pairs.pairs[i].index] = 0.0f;
    parts_form(g, b, b->k ? &pairs : NULL, residual);
    return 0;
}

/* For a single process: adds the block's norm, waits for its residual, and forms what is sent.
 * *overflow: the gradient with its residual is no longer finite. */
static int complete(struct gradients *g, struct gbuf *b, uint64_t start, struct norm_sum *norm,
                    int *overflow, struct err *err)
{
    struct scheduler_wait wait = { .block = (int)b->block };
    struct meter         *m = g->sched->meter;
    int                   block = (int)b->block, rc;

    b->most = g->sums_pairs ? pairs_norm(g, b, norm)
                            : grad_norm(norm, b->block, b->own, b->n, g->scratch);
    uint64_t normed = clock_ns();
    scheduler_lock(g->sched);
    while (b->asked != RESIDUAL_READY && scheduler_wait(g->sched, &wait, PHASE_WAIT_RESIDUAL))
        ;
    scheduler_waited(g->sched, &wait);
    if ((rc = scheduler_unlock(g->sched, 0, err)))
        return rc;
    uint64_t ready = clock_ns();
    *overflow = !norm->nonfinite && form(g, b);
    if (*overflow)
        norm_sum_flag(norm, b->block);
    meter_span(m, b->step, PHASE_GRAD_NORM, block, -1, start, normed, sizeof(float) * b->n);
    meter_span(m, b->step, b->k ? PHASE_GRAD_COMPRESS : PHASE_GRAD_NORM, block, -1, ready,
               clock_ns(), sizeof(float) * b->n);
    return 0;
}

int gradients_send(struct gradients *g, size_t block, struct norm_sum *norm, struct err *err)
{
    struct gbuf *b = buffer_of(g, block);
    uint64_t     start = clock_ns();
    int          overflow = 0;

    assert(b->state == GBUF_LENT && b->block == block);
    assert(route_block(&g->sched->cfg.route, STREAM_TRAIN, ROUTE_SEND, g->sent) == block);
    groups_end(g, b);
    int rc = g->alone ? complete(g, b, start, norm, &overflow, err) : 0;
    if (rc)
        return rc;
    scheduler_lock(g->sched);
    g->sent++;
    b->state = !g->alone ? GBUF_SENT : norm->nonfinite ? GBUF_FREE : GBUF_QUEUED;
    if (b->state == GBUF_FREE) // the step will be skipped, so nothing of it is written
        g->written++;
    if (g->residuals && (overflow || b->state == GBUF_QUEUED))
        g->residuals[block].held = overflow ? HELD_NONE : HELD_NEXT;
    return scheduler_unlock(g->sched, 1, err);
}

int gradients_norm(struct gradients *g, struct norm_sum *norm, struct err *err)
{
    struct scheduler_wait wait = { .block = -1 };

    if (g->alone)
        return 0;
    scheduler_lock(g->sched);
    while (g->merged < g->sent && scheduler_wait(g->sched, &wait, PHASE_WAIT_GRADIENT))
        ;
    scheduler_waited(g->sched, &wait);
    int rc = scheduler_unlock(g->sched, 0, err);
    return rc ? rc : exchange_norm(&g->exchange, norm, err);
}

int gradients_open(struct gradients *g, struct err *err)
{
    g->exchange.sched = g->sched;
    g->exchange.ready = portion_form;
    g->exchange.ctx = g;
    g->n_nodes = ranks_nodes(&g->sched->cfg.ranks, g->sched->cfg.ranks.rank, g->nodes);
    return exchange_open(&g->exchange, err);
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

/* Reads the committed residual or writes the next one into the other area. The model asks when the
 * commit A before is through, so `state` says which one that is. */
static void residual_submit(struct gradients *g, struct gbuf *b, size_t i, enum csd_kind kind)
{
    static const struct task_kind reading = { TASK_OF_SUBGROUP, residual_done, "residual", "is" };
    static const struct task_kind writing = { TASK_OF_SUBGROUP, residual_done, NULL, NULL };
    const struct store_sub *u = &g->sched->dev.store.subs[i];
    int                     reads = kind == CSD_READ;

    g->feedback[i] = (struct task){
        .kind = reads ? &reading : &writing, .part = g, .sub = i, .step = b->step,
        .phase = reads && g->residuals ? PHASE_SETUP : PHASE_GRAD_WRITE,
        .job = { .kind = kind, .cls = CLASS_RESIDUAL, .buf = b->residual + u->first,
                 .off = store_residual_off(u, g->subs->state.applied + !reads),
                 .bytes = store_residual_bytes(u->n_pad), .payload = sizeof(float) * u->n,
                 .tag = g->subs->sub[i].residual_crc, .user = b },
    };
    scheduler_submit(g->sched, u->device, &g->feedback[i]);
}

static void grad_submit(struct gradients *g, struct gbuf *b, size_t i)
{
    static const struct task_kind kind = { TASK_OF_SUBGROUP, grad_done, NULL, NULL };
    const struct grad_part *p = &g->parts[i];
    const struct store_sub *at = &g->sched->dev.store.subs[i];
    struct sub             *u = &g->subs->sub[i];

    u->grad = p->sum;
    u->grad_most = b->most;
    g->writes[i] = (struct task){
        .kind = &kind, .part = g, .sub = i, .step = b->step, .phase = PHASE_GRAD_WRITE,
        .job = { .kind = CSD_WRITE, .cls = CLASS_GRADIENT, .buf = p->bytes, .off = at->grad_off,
                 .bytes = p->n_bytes, .payload = p->payload, .user = b },
    };
    b->unwritten++;
    scheduler_submit(g->sched, at->device, &g->writes[i]);
    if (!g->feedback)
        return;
    u->residual_next = p->residual_crc;
    b->unwritten++;
    residual_submit(g, b, i, CSD_WRITE);
}

/* Queues what is merged for writing, and begins the next exchange in the order of sending. */
static int exchanges_advance(struct gradients *g, struct err *err)
{
    struct exchange *x = &g->exchange;
    int              rc = exchange_advance(x, err); // with a single process it is always idle

    if (rc < 0)
        return rc;
    if (exchange_state(x) == EXCHANGE_MERGED) {
        buffer_of(g, x->block)->state = GBUF_QUEUED;
        exchange_end(x);
        g->merged++;
        rc = 1;
    }
    if (g->alone || exchange_state(x) != EXCHANGE_IDLE || g->merged == g->sent)
        return rc;
    size_t       block = route_block(&g->sched->cfg.route, STREAM_TRAIN, ROUTE_SEND, g->merged);
    struct gbuf *b = buffer_of(g, block);
    int          failed = g->sums_pairs
                              ? exchange_begin_pairs(x, block, b->nodes, err)
                              : exchange_begin(x, block, b->sum.x, err);
    return failed ? failed : 1;
}

int gradients_advance(struct gradients *g, struct err *err)
{
    const struct store *st = &g->sched->dev.store;
    int                 progress = exchanges_advance(g, err);

    if (progress < 0)
        return progress;

    for (size_t i = 0; i < g->n_bufs; i++) {
        struct gbuf *b = &g->bufs[i];
        size_t       first = st->block_sub[b->block], end = st->block_sub[b->block + 1];
        int          asks = b->asked == RESIDUAL_ASKED;
        int          writes = b->state == GBUF_QUEUED &&
                              subs_all(g->subs, b->block, g->subs->state.applied, 1) &&
                              !subs_residual_held(g->subs, b->block);

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
        if (writes && first == end) { // this rank has nothing of the block
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
    for (size_t b = 0; g->residuals && b < run_blocks(&g->sched->cfg); b++)
        if (g->residuals[b].held == HELD_NEXT)
            g->residuals[b].held = skip ? HELD_NONE : HELD_COMMITTED;
}

void gradients_begin(struct gradients *g, int skip)
{
    g->ended = 0;
    g->sent = g->written = g->merged = 0;
    for (size_t i = 0; i < g->sched->dev.store.n_subs; i++) {
        struct sub *u = &g->subs->sub[i];

        u->written = 0;
        if (!skip)
            u->residual_crc = u->residual_next;
    }
}
