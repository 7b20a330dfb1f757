/* stream_mem.c: the stream whose devices are RAM: masters, moments, gradients and wire copies of
 * every block lie in one arena, a step waits for nothing, and an update is done when stream_update
 * returns. It is the reference of all other modes, and the fast path for models that fit. What
 * outlives the process are images (image.h).
 *
 * Invariants: the wire copy always is the rounded master (in fp32 it is the master); pieces of an
 * update never cross a change of weight decay, and since the update is element-wise, where they are
 * cut changes no bit; nothing is allocated after open. A step's row is committed with every step
 * but not flushed; images are, and the rows that name them. A residual changes with the update, so
 * a skipped step leaves it alone: until then the gradient's buffer holds gradient and residual
 * together, its pairs beside it. */
#include "offload/stream_mem.h"

#include "data/base/arena.h"
#include "data/base/clock.h"
#include "data/base/file.h"
#include "data/base/round.h"
#include "data/base/machine.h"
#include "kernels/elementwise.h"
#include "kernels/reduce.h"
#include "kernels/topk.h"
#include "offload/image.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    PIECE_PARAMS = 16384, // of an update: 320 KB with Adam, so that master, moments, gradient and
                          // wire pass through L2 once
    MAX_SPANS    = 8192,
    SPAN_BYTES   = 64,    // about what the meter holds for one
};

struct piece {
    size_t block, first, n;
    float  weight_decay;
    struct reach      reach; // of its values
    struct reach_kept kept;  // by the last update
};

struct mem_block {
    size_t params;
    float *states; // [master, moments.., residual], as in an image
    float *grad;
    float *residual; // error feedback: what steps before did not send; NULL without
    struct topk_pair *pairs; // and what this one sends
    void  *wire;   // the master itself in fp32
    int    lent;   // grad was handed out in this step
    double most;   // what no magnitude in it exceeds
};

struct stream_mem {
    struct stream     stream;
    struct run_config cfg; // its arrays are copied: block_sizes
    size_t           *block_sizes;
    struct meter     *meter;
    struct mem_block *blocks;
    float           **states; // of each block, for images
    struct arena      arena; // of the blocks
    struct piece     *pieces;
    size_t            n_pieces;
    struct topk_pair *pairs; // compressed runs: of the largest block, with error feedback of every
                             // block
    void             *scratch; // of the norm and of Top-K
    uint32_t         *crc;     // of the image being written
    struct image_state committed;
    int image[IMAGE_AREAS]; // open and locked: a second process would train from the same state
    uint64_t          next_step, applied;
    uint64_t          update_ns; // when the update under way began
    struct param_set kept;
};

static struct stream_mem *of(struct stream *s)
{
    return (struct stream_mem *)s;
}

/* Sizes. */

static size_t aligned(size_t bytes)
{
    return round_up(bytes, ARENA_LINE);
}

static size_t states_bytes(const struct run_config *cfg, size_t block)
{
    return aligned(image_block_floats(cfg, block) * sizeof(float));
}

static size_t grad_bytes(const struct run_config *cfg, size_t block)
{
    return aligned(cfg->block_params[block] * sizeof(float));
}

static size_t wire_bytes(const struct run_config *cfg, size_t block)
{
    return cfg->wire_dt == DT_F32 ? 0
                                  : aligned(cfg->block_params[block] * dtype_bytes(cfg->wire_dt));
}

static size_t scratch_bytes(const struct run_config *cfg)
{
    size_t most = 0;

    for (size_t b = 0; b < cfg->n_blocks; b++) {
        size_t n = cfg->block_params[b], need = reduce_scratch(n);

        if (cfg->compress > 0.0 && topk_scratch(n, topk_count(n, cfg->compress)) > need)
            need = topk_scratch(n, topk_count(n, cfg->compress));
        most = need > most ? need : most;
    }
    return aligned(most);
}

static size_t pairs_bytes(const struct run_config *cfg)
{
    size_t most = 0, all = 0;

    for (size_t b = 0; b < cfg->n_blocks && cfg->compress > 0.0; b++) {
        size_t k = topk_count(cfg->block_params[b], cfg->compress);

        most = k > most ? k : most;
        all += k;
    }
    return aligned((cfg->error_feedback ? all : most) * sizeof(struct topk_pair));
}

static size_t residual_bytes(const struct run_config *cfg, size_t block)
{
    return cfg->error_feedback ? cfg->block_params[block] * sizeof(float) : 0;
}

/* The step. */

static int mem_drain(struct stream *s, struct err *err);

static int mem_begin(struct stream *s, enum stream_pass pass, uint64_t step, struct err *err)
{
    (void)pass, (void)step;
    return of(s)->kept.n ? mem_drain(s, err) : 0;
}

static int mem_acquire(struct stream *s, size_t block, const void **wire, struct err *err)
{
    (void)err;
    assert(block < of(s)->cfg.n_blocks);
    *wire = of(s)->blocks[block].wire;
    return 0;
}

static void mem_release(struct stream *s, size_t block)
{
    assert(block < of(s)->cfg.n_blocks);
    (void)s, (void)block;
}

static int mem_grad(struct stream *s, size_t block, float **grad, int *fresh, struct err *err)
{
    struct mem_block *b = &of(s)->blocks[block];

    (void)err;
    assert(block < of(s)->cfg.n_blocks);
    *fresh = !b->lent;
    b->lent = 1;
    *grad = b->grad;
    return 0;
}

/* Only the largest stay, at their places: what a device has after it scattered its pairs. */
static void keep_pairs(struct mem_block *b, const struct topk_pair *pairs, size_t k)
{
    floats_zero(b->grad, b->params);
    for (size_t i = 0; i < k; i++)
        b->grad[pairs[i].index] = pairs[i].value;
}

/* A gradient that is not finite stays as it is: it will be skipped. */
static int mem_send_grad(struct stream *s, size_t block, struct stream_norm *norm, struct err *err)
{
    struct stream_mem *m = of(s);
    struct mem_block  *b = &m->blocks[block];
    uint64_t           start = clock_ns();
    int                nonfinite = 0;

    (void)err;
    assert(b->lent && "a gradient is sent that was never asked for");
    norm->sumsq += reduce_sumsq(b->grad, b->params, &nonfinite, m->scratch);
    if (nonfinite)
        stream_norm_flag(norm, block);
    b->most = sqrt(norm->sumsq);
    if (m->cfg.compress > 0.0 && !nonfinite) {
        size_t k = topk_count(b->params, m->cfg.compress);

        if (b->residual)
            residual_add(b->grad, b->residual, b->grad, b->params);
        topk_select(b->pairs, b->grad, b->params, k, m->scratch);
        if (b->residual)
            b->most = (double)topk_most(b->pairs, k);
        if (b->residual && !isfinite(b->most))
            stream_norm_flag(norm, block);
        if (!b->residual)
            keep_pairs(b, b->pairs, k);
    }
    meter_span(m->meter, m->next_step, PHASE_GRAD_COMPRESS, (int)block, -1, start, clock_ns(),
               b->params * sizeof(float));
    return 0;
}

/* What is sent goes into the update, what is not becomes the residual. */
static void settle_residual(struct mem_block *b, double compress)
{
    size_t k = topk_count(b->params, compress);

    convert(b->residual, DT_F32, b->grad, DT_F32, b->params);
    for (size_t i = 0; i < k; i++)
        b->residual[b->pairs[i].index] = 0.0f;
    keep_pairs(b, b->pairs, k);
}

static void update_piece(const struct stream_mem *m, struct piece *p, const struct optim_step *step)
{
    const struct mem_block *b = &m->blocks[p->block];
    float                  *w = b->states + p->first;
    float                  *v = optim_moments(step->kind) > 1 ? w + 2 * b->params : NULL;

    p->kept = (struct reach_kept){ 0 };
    if (reach_calm(&p->reach, step, (double)p->weight_decay, b->most)) {
        optim_update(w, w + b->params, v, b->grad + p->first, p->n, p->weight_decay, step);
    } else {
        p->reach = (struct reach){ 0 };
        p->kept = reach_update(w, w + b->params, v, b->grad + p->first, p->n, p->weight_decay, step,
                               &p->reach);
    }
    if (m->cfg.wire_dt != DT_F32)
        convert((bf16 *)b->wire + p->first, m->cfg.wire_dt, w, DT_F32, p->n); // still in cache
}

static void update_all(struct stream_mem *m, const struct stream_step *step)
{
    uint64_t start = clock_ns();

    assert(step->optim.kind == m->cfg.optim);
    for (size_t b = 0; m->cfg.error_feedback && b < m->cfg.n_blocks; b++)
        settle_residual(&m->blocks[b], m->cfg.compress);
#pragma omp parallel for schedule(dynamic, 4)
    for (size_t i = 0; i < m->n_pieces; i++)
        update_piece(m, &m->pieces[i], &step->optim);
    for (size_t i = 0; i < m->n_pieces; i++)
        param_set_add(&m->kept, m->pieces[i].block, m->pieces[i].first, m->pieces[i].kept);
    m->applied++;
    meter_span(m->meter, step->row.step, PHASE_UPDATE, -1, -1, start, clock_ns(), 0);
}

/* Commits. */

/* A step's row need not be on the drive when it is committed; an image's must. */
static int sync_rows(struct stream_mem *m, enum runlog_sync how, struct err *err)
{
    return m->cfg.durable ? runlog_sync(m->cfg.log, how, err) : 0;
}

static int step_rows(struct stream_mem *m, const struct runlog_step *row, struct err *err)
{
    double seconds = row->seconds + (double)(clock_ns() - m->update_ns) * 1e-9;
    int    rc = runlog_step(m->cfg.log, row, err);

    if (!rc)
        rc = runlog_step_done(m->cfg.log, row->step, seconds, rss_peak(), err);
    if (!rc)
        rc = meter_flush(m->meter, row->step, m->cfg.log, err);
    return rc;
}

/* One transaction: a step's row, if there is one, and the rows of the image that was just written,
 * if there is one. */
static int commit_rows(struct stream_mem *m, const struct runlog_step *row,
                       const struct image_state *image, struct err *err)
{
    int rc = runlog_begin(m->cfg.log, err);

    if (!rc && row)
        rc = step_rows(m, row, err);
    if (!rc && image)
        rc = image_commit(&m->cfg, image, m->crc, err);
    return runlog_end(m->cfg.log, rc, err);
}

static int commit_image(struct stream_mem *m, const struct runlog_step *row, struct err *err)
{
    struct image_state next = { .area = 1 - m->committed.area,
                                .step = m->next_step,
                                .applied = m->applied };
    uint64_t           start = clock_ns();
    int rc = image_write(&m->cfg, next.area, m->image[next.area], m->states, m->crc, err);

    if (rc)
        return rc;
    if (row)
        meter_span(m->meter, row->step, PHASE_COMMIT, -1, -1, start, clock_ns(),
                   image_bytes(&m->cfg));
    rc = sync_rows(m, RUNLOG_SYNC_ALL, err);
    if (!rc)
        rc = commit_rows(m, row, &next, err);
    if (!rc)
        rc = sync_rows(m, RUNLOG_SYNC_LATER, err);
    if (!rc)
        m->committed = next;
    return rc;
}

static int mem_update(struct stream *s, const struct stream_step *step, struct err *err)
{
    struct stream_mem *m = of(s);

    assert(step->row.step == m->next_step);
    m->update_ns = clock_ns();
    if (!step->skip)
        update_all(m, step);
    for (size_t b = 0; b < m->cfg.n_blocks; b++)
        m->blocks[b].lent = 0;
    m->next_step++;
    if (m->cfg.commit_every && m->next_step - m->committed.step >= m->cfg.commit_every)
        return commit_image(m, &step->row, err);
    return commit_rows(m, &step->row, NULL, err);
}

static int mem_drain(struct stream *s, struct err *err)
{
    struct stream_mem *m = of(s);
    int                rc = m->next_step == m->committed.step ? 0 : commit_image(m, NULL, err);

    return rc || !m->kept.n ? rc : run_kept(&m->cfg, m->next_step, &m->kept, err);
}

static int master_reader_read(void *ctx, size_t block, size_t first, size_t n, float *out,
                              struct err *err)
{
    const struct stream_mem *m = ctx;

    (void)err;
    assert(block < m->cfg.n_blocks && first + n <= m->blocks[block].params);
    memcpy(out, m->blocks[block].states + first, n * sizeof *out);
    return 0;
}

static int mem_masters(struct stream *s, uint64_t step, struct params_source *out, struct err *err)
{
    (void)step, (void)err;
    *out = (struct params_source){ master_reader_read, s };
    return 0;
}

static int mem_masters_end(struct stream *s, struct err *err)
{
    (void)s, (void)err;
    return 0;
}

static uint64_t mem_applied(const struct stream *s)
{
    return ((const struct stream_mem *)s)->applied;
}

static struct meter *mem_meter(struct stream *s)
{
    return of(s)->meter;
}

static void mem_close(struct stream *s)
{
    struct stream_mem *m = of(s);

    for (unsigned a = 0; a < IMAGE_AREAS; a++)
        if (m->image[a] >= 0)
            close(m->image[a]);
    arena_free(&m->arena);
    if (m->cfg.log)
        sync_rows(m, RUNLOG_SYNC_ALL, NULL);
    meter_free(m->meter);
    free(m->scratch);
    free(m->pairs);
    free(m->crc);
    free(m->pieces);
    free(m->states);
    free(m->blocks);
    free(m->block_sizes);
    free(m);
}

static const struct stream_ops stream_mem_ops = {
    .name = "mem",
    .begin = mem_begin,
    .acquire = mem_acquire,
    .release = mem_release,
    .grad = mem_grad,
    .send_grad = mem_send_grad,
    .update = mem_update,
    .drain = mem_drain,
    .masters = mem_masters,
    .masters_end = mem_masters_end,
    .applied = mem_applied,
    .meter = mem_meter,
    .close = mem_close,
};

/* Opening. */

/* cfg->decay's pieces of a block, cut further; with pieces NULL only counted. */
struct cutter {
    struct piece *pieces;
    size_t        n, block;
};

static void cut_pieces(void *ctx, size_t offset, size_t count, float weight_decay)
{
    struct cutter *c = ctx;
    size_t         end = offset + count;

    for (size_t n; offset < end; offset += n) {
        n = PIECE_PARAMS - offset % PIECE_PARAMS;
        n = n < end - offset ? n : end - offset;
        if (c->pieces)
            c->pieces[c->n] =
                (struct piece){ c->block, offset, n, weight_decay, REACH_UNKNOWN, { 0 } };
        c->n++;
    }
}

static size_t make_pieces(const struct run_config *cfg, struct piece *pieces)
{
    struct cutter c = { .pieces = pieces };

    for (c.block = 0; c.block < cfg->n_blocks; c.block++)
        cfg->decay(cfg->decay_ctx, c.block, 0, cfg->block_params[c.block], cut_pieces, &c);
    return c.n;
}

void stream_mem_memory(const struct run_config *cfg, struct run_memory *out)
{
    size_t last = cfg->n_blocks - 1;

    *out = (struct run_memory){
        .compress = scratch_bytes(cfg) + pairs_bytes(cfg),
        .spans = (uint64_t)3 * MAX_SPANS * SPAN_BYTES,
        .tables = make_pieces(cfg, NULL) * sizeof(struct piece),
        .states =
            wire_bytes(cfg, 0) + grad_bytes(cfg, 0) + wire_bytes(cfg, last) + grad_bytes(cfg, last),
        .layer_frame = last > 1 ? wire_bytes(cfg, 1) : 0,
        .layer_grad = last > 1 ? grad_bytes(cfg, 1) : 0,
        .device_bytes = IMAGE_AREAS * image_bytes(cfg),
    };
    for (size_t b = 0; b < cfg->n_blocks; b++) {
        out->states += states_bytes(cfg, b) - residual_bytes(cfg, b);
        out->residual_ram += residual_bytes(cfg, b);
    }
    out->frames = out->layer_frame * (last - 1);
    out->grads = out->layer_grad * (last - 1);
}

static int open_tables(struct stream_mem *m, struct err *err)
{
    const struct run_config *cfg = &m->cfg;
    size_t                   n = cfg->n_blocks;

    m->block_sizes = malloc(n * sizeof *m->block_sizes);
    m->blocks = calloc(n, sizeof *m->blocks);
    m->states = calloc(n, sizeof(float *));
    m->crc = calloc(n, sizeof *m->crc);
    m->n_pieces = make_pieces(cfg, NULL);
    m->pieces = malloc(m->n_pieces * sizeof *m->pieces);
    m->scratch = aligned_alloc(ARENA_LINE, scratch_bytes(cfg));
    m->pairs = cfg->compress > 0.0 ? aligned_alloc(ARENA_LINE, pairs_bytes(cfg)) : NULL;
    m->meter = meter_new(MAX_SPANS, 0);
    if (!m->block_sizes || !m->blocks || !m->states || !m->crc || !m->pieces || !m->scratch ||
        !m->meter || (cfg->compress > 0.0 && !m->pairs))
        return err_set(err, -ENOMEM, "out of memory for the tables of %zu blocks", n);
    make_pieces(cfg, m->pieces);
    memcpy(m->block_sizes, cfg->block_params, n * sizeof *m->block_sizes);
    m->cfg.block_params = m->block_sizes;
    return 0;
}

static void lay_blocks(struct stream_mem *m)
{
    for (size_t b = 0; b < m->cfg.n_blocks; b++) {
        struct mem_block *mb = &m->blocks[b];

        mb->states = m->states[b] = arena_take(&m->arena, states_bytes(&m->cfg, b));
        mb->grad = arena_take(&m->arena, grad_bytes(&m->cfg, b));
        mb->wire = m->cfg.wire_dt == DT_F32 ? mb->states
                                            : arena_take(&m->arena, wire_bytes(&m->cfg, b));
    }
}

static int open_arena(struct stream_mem *m, struct err *err)
{
    const struct run_config *cfg = &m->cfg;
    struct topk_pair        *pairs = m->pairs;
    int                      rc;

    lay_blocks(m);
    rc = arena_map(&m->arena, "parameters, states and gradients in --mode mem", err);
    if (rc)
        return rc;
    lay_blocks(m);
    for (size_t b = 0; b < cfg->n_blocks; b++) {
        struct mem_block *mb = &m->blocks[b];

        mb->params = cfg->block_params[b];
        mb->pairs = pairs;
        if (!cfg->error_feedback)
            continue;
        mb->residual = mb->states + image_block_floats(cfg, b) - mb->params;
        pairs += topk_count(mb->params, cfg->compress);
    }
    return 0;
}

/* The committed image; then wire copies and gradients are touched here, so that the first step
 * takes no page faults. */
static int load_states(struct stream_mem *m, struct err *err)
{
    int rc = image_load(&m->cfg, &m->committed, m->states, err);

    for (unsigned a = 0; a < IMAGE_AREAS && !rc; a++)
        rc = image_open(&m->cfg, a, &m->image[a], err);
    if (rc)
        return rc;
    m->cfg.watch = NULL; // lent for this
    m->next_step = m->committed.step;
    m->applied = m->committed.applied;
    for (size_t b = 0; b < m->cfg.n_blocks; b++) {
        struct mem_block *mb = &m->blocks[b];

        if (m->cfg.wire_dt != DT_F32)
            convert(mb->wire, m->cfg.wire_dt, mb->states, DT_F32, mb->params);
        floats_zero(mb->grad, mb->params);
    }
    return 0;
}

int stream_mem_open(struct stream **out, const struct run_config *cfg, struct err *err)
{
    struct stream_mem *m = calloc(1, sizeof *m);
    int                rc;

    *out = NULL;
    if (!m)
        return err_set(err, -ENOMEM, "out of memory for a stream");
    assert(cfg->wire_dt == DT_F32 || cfg->wire_dt == DT_BF16);
    m->stream.ops = &stream_mem_ops;
    m->image[0] = m->image[1] = -1;
    m->cfg = *cfg;
    rc = open_tables(m, err);
    if (!rc)
        rc = open_arena(m, err);
    if (!rc)
        rc = load_states(m, err);
    if (!rc)
        rc = sync_rows(m, RUNLOG_SYNC_LATER, err);
    if (rc)
        mem_close(&m->stream);
    else
        *out = &m->stream;
    return rc;
}
