/* stream_mem.c: runs the stream of mode mem, without devices. Masters, moments, gradients and wire
 * copies of every block are in one arena. A step waits for nothing, and an update is done when
 * stream_update returns. It is the reference of all other modes, and the fast path for models that
 * fit. Images (image.h) outlive the process.
 *
 * Invariants: The wire copy is always the rounded master (in fp32 it is the master). A frozen block
 * has a wire copy and nothing else; of a base in place it comes from the base's files. Slices of
 * an update never cross a change of weight decay; the update is element-wise, so their borders
 * change no bit. Nothing is allocated after open. Each step's row is committed, but not flushed;
 * images and their rows are flushed. A residual changes only with the update, so a skipped step
 * leaves it alone. Until the update, the gradient's buffer holds gradient plus residual, and the
 * pairs are kept apart. A gradient of several groups (grouped.h) has a place for each; the sum ends
 * in the first. */
#include "offload/stream/stream_open.h"

#include "data/base/arena.h"
#include "data/base/clock.h"
#include "data/base/machine.h"
#include "data/base/round.h"
#include "kernels/elementwise.h"
#include "offload/devices/image.h"
#include "offload/gradient/grad_form.h"
#include "offload/gradient/grouped.h"
#include "offload/stream/base_reader.h"
#include "offload/stream/held_image.h"
#include "offload/stream/mem_slices.h"

#include <assert.h>
#include <pthread.h>
#include <unistd.h>

enum {
    MAX_SPANS  = 8192,
    SPAN_BYTES = 64,    // about the meter's bytes per span
};

struct mem_block {
    size_t params;
    float *states; // [master, moments.., residual], as in an image; NULL: frozen
    float *grad;
    struct grouped sum; // the groups of the gradient
    float *residual; // error feedback: what earlier steps did not send; or NULL
    struct topk_pair *pairs; // the pairs that this step sends
    void  *wire;   // in fp32 the master itself, unless the block is frozen
    int    lent;   // grad was lent in this step
    double most;   // bound of its magnitudes
};

struct stream_mem {
    struct stream      stream;
    struct run_config  cfg;    // its pointers are the opener's
    struct arena       arena;  // holds all that follows
    int                lost;   // a read of the base that was given up may still write to it
    struct mem_block  *blocks;
    void             **stored; // (blocks), for images: states, or the wire of frozen blocks
    uint32_t          *crc;    // of the image being written
    struct slice      *slices;
    size_t             n_slices;
    void              *scratch; // for the norm and Top-K
    pthread_mutex_t    lock;    // guards the next two, for mem_area; this thread alone writes them
    struct image_state committed;
    uint32_t          *sums[2]; // (blocks) of the committed image, and of the frozen blocks
    int image[IMAGE_AREAS]; // open and locked: a second process would train from the same state
    uint64_t           next_step;
    struct param_set   overflow;
    struct held_image  held;
};

static struct stream_mem *of(struct stream *s) { return (struct stream_mem *)s; }

/* Bytes of a block's buffers. `states` includes the residual. */
struct mem_bytes { size_t states, grad, wire, residual; };
static struct mem_bytes bytes_of(const struct run_config *cfg, size_t block)
{
    size_t n = cfg->block_params[block], wire = round_up(n * dtype_bytes(cfg->wire_dt), ARENA_LINE);

    if (!run_trains(cfg, block))
        return (struct mem_bytes){ .wire = wire };
    return (struct mem_bytes){
        .states = round_up(image_block_floats(cfg, block) * sizeof(float), ARENA_LINE),
        .grad = round_up(n * sizeof(float), ARENA_LINE) * grouped_slots(cfg, block, 0),
        .wire = cfg->wire_dt == DT_F32 ? 0 : wire,
        .residual = cfg->error_feedback ? n * sizeof(float) : 0,
    };
}

/* Memory for the norm and Top-K. With error feedback, all blocks' pairs are kept. */
static struct grad_work work_of(const struct run_config *cfg)
{
    struct grad_work w = grad_work(cfg);

    w.pairs = cfg->error_feedback ? w.all_pairs : w.pairs;
    return w;
}

/* ---- the step ---- */

static int mem_acquire(struct stream *s, size_t block, const void **wire, struct err *err)
{
    (void)err;
    assert(block < run_blocks(&of(s)->cfg));
    *wire = of(s)->blocks[block].wire;
    return 0;
}

/* Zeroes all but the pairs of a gradient. A device has the same after it has expanded its pairs. */
static void keep_pairs(float *grad, size_t n, const struct topk_pair *pairs, size_t k)
{
    floats_zero(grad, n);
    for (size_t i = 0; i < k; i++)
        grad[pairs[i].index] = pairs[i].value;
}

/* Ends a group's gradient when it is complete, and adds it to the others'. If groups are compressed
 * (run_pair_sums), all but its pairs is zeroed before. */
static void group_end(struct stream_mem *m, struct mem_block *b, size_t group)
{
    size_t k = run_pair_sums(&m->cfg) ? topk_count(b->params, m->cfg.compress) : 0;
    float *grad = grouped_at(&b->sum, group);

    if (k) {
        topk_select(b->pairs, grad, b->params, k, m->scratch);
        keep_pairs(grad, b->params, b->pairs, k);
    }
    grouped_add(&b->sum, group, b->params);
}

static int mem_grad(struct stream *s, size_t block, size_t group, float **grad, int *fresh,
                    struct err *err)
{
    struct stream_mem *m = of(s);
    struct mem_block  *b = &m->blocks[block];

    (void)err;
    assert(block < run_blocks(&m->cfg));
    if (!b->lent)
        grouped_begin(&b->sum, &m->cfg, block);
    b->lent = 1;
    size_t before = grouped_before(&b->sum, group);
    if (before != GROUPED_NONE)
        group_end(m, b, before);
    *grad = grouped_lend(&b->sum, group, fresh);
    return 0;
}

/* A gradient that is not finite is left as it is, because the step will be skipped. */
static int mem_send_grad(struct stream *s, size_t block, struct norm_sum *norm, struct err *err)
{
    struct stream_mem *m = of(s);
    struct mem_block  *b = &m->blocks[block];
    uint64_t           start = clock_ns();
    int                compresses = m->cfg.compress > 0 && !run_pair_sums(&m->cfg);

    (void)err;
    assert(b->lent && "a gradient is sent that was never asked for");
    struct route_span last = grouped_last(&b->sum);
    for (size_t i = last.first; i < last.end; i++)
        group_end(m, b, i);
    assert(b->sum.held == 1);
    if (b->sum.x[0] != b->grad)
        copy_wide(b->grad, b->sum.x[0], b->params * sizeof *b->grad);
    b->most = grad_norm(norm, block, b->grad, b->params, m->scratch);
    meter_span(s->meter, m->next_step, PHASE_GRAD_NORM, (int)block, -1, start, clock_ns(),
               b->params * sizeof(float));
    start = clock_ns();
    if (compresses && !norm->nonfinite) {
        size_t k = topk_count(b->params, m->cfg.compress);

        if (grad_select(b->pairs, k, b->grad, b->residual, b->grad, b->params, m->scratch,
                        &b->most))
            norm_sum_flag(norm, block);
        if (!b->residual)
            keep_pairs(b->grad, b->params, b->pairs, k);
    }
    if (compresses)
        meter_span(s->meter, m->next_step, PHASE_GRAD_COMPRESS, (int)block, -1, start, clock_ns(),
                   b->params * sizeof(float));
    return 0;
}

/* What is sent goes into the update; the rest becomes the residual. */
static void settle_residual(struct mem_block *b, double compress)
{
    size_t k = topk_count(b->params, compress);

    convert(b->residual, DT_F32, b->grad, DT_F32, b->params);
    for (size_t i = 0; i < k; i++)
        b->residual[b->pairs[i].index] = 0.0f;
    keep_pairs(b->grad, b->params, b->pairs, k);
}

static void update_slice(const struct stream_mem *m, struct slice *p, const struct optim_step *step)
{
    const struct mem_block *b = &m->blocks[p->block];
    float                  *w = b->states + p->first;
    float                  *v = optim_moments(step->kind) > 1 ? w + 2 * b->params : NULL;

    int unchecked = bounds_advance(&p->bounds, step, (double)p->weight_decay, b->most);
    if (!unchecked)
        p->bounds = (struct bounds){ 0 };
    p->overflow = bounds_update(w, w + b->params, v, b->grad + p->first, p->n, p->weight_decay,
                                step, unchecked ? NULL : &p->bounds);
    if (m->cfg.wire_dt != DT_F32)
        convert((bf16 *)b->wire + p->first, m->cfg.wire_dt, w, DT_F32, p->n); // still in cache
}

static void update_all(struct stream_mem *m, const struct stream_step *step)
{
    uint64_t start = clock_ns();

    assert(step->optim.kind == m->cfg.optim);
    for (size_t b = 0; m->cfg.error_feedback && b < run_blocks(&m->cfg); b++)
        if (m->blocks[b].residual)
            settle_residual(&m->blocks[b], m->cfg.compress);
#pragma omp parallel for schedule(dynamic, 4)
    for (size_t i = 0; i < m->n_slices; i++)
        update_slice(m, &m->slices[i], &step->optim);
    for (size_t i = 0; i < m->n_slices; i++)
        param_set_add(&m->overflow, m->slices[i].block, m->slices[i].first, m->slices[i].overflow);
    m->stream.applied++;
    meter_span(m->stream.meter, step->row.step, PHASE_UPDATE, -1, -1, start, clock_ns(), 0);
}

/* ---- commits ---- */

/* Flushes run.db. A step's row need not be on the drive when it is committed; an image's rows
 * must. */
static int sync_rows(struct stream_mem *m, enum runlog_sync how, struct err *err)
{
    return m->cfg.durable ? runlog_sync(m->cfg.log, how, err) : 0;
}

/* Writes one transaction: the step's row and the rows of the image just written, as far as
 * given. */
static int commit_rows(struct stream_mem *m, const struct stream_step *step,
                       const struct image_state *image, struct err *err)
{
    struct runlog *log = m->cfg.log;
    double         seconds = step ? stream_step_over(&m->stream, step) : 0;
    int            rc = 0;

    for (unsigned a = 0; a < IMAGE_AREAS && !rc; a++)
        rc = image_present(&m->cfg, a, m->image[a], err);
    rc = rc ? rc : runlog_begin(log, err);
    if (!rc && step)
        rc = runlog_step(log, &step->row, err);
    if (!rc && step)
        rc = runlog_step_done(log, step->row.step, seconds, rss_peak(), err);
    if (!rc && step)
        rc = meter_flush(m->stream.meter, step->row.step, log, err);
    if (!rc && image)
        rc = image_commit(&m->cfg, image, m->crc, err);
    return runlog_end(log, rc, err);
}

static int commit_image(struct stream_mem *m, const struct stream_step *step, struct err *err)
{
    struct image_state next = { .area = 1 - m->committed.area,
                                .step = m->next_step,
                                .applied = m->stream.applied };
    uint64_t           start = clock_ns();

    held_image_wait(&m->held, next.area);
    int rc = image_write(&m->cfg, next.area, m->image[next.area], m->stored, m->crc, err);

    if (rc)
        return rc;
    if (step)
        meter_span(m->stream.meter, step->row.step, PHASE_COMMIT, -1, -1, start, clock_ns(),
                   image_bytes(&m->cfg));
    rc = sync_rows(m, RUNLOG_SYNC_ALL, err);
    rc = rc ? rc : commit_rows(m, step, &next, err);
    rc = rc ? rc : sync_rows(m, RUNLOG_SYNC_LATER, err);
    if (rc)
        return rc;
    pthread_mutex_lock(&m->lock);
    m->committed = next;
    memcpy(m->sums[0], m->crc, run_blocks(&m->cfg) * sizeof *m->crc);
    pthread_mutex_unlock(&m->lock);
    return 0;
}

static int mem_update(struct stream *s, const struct stream_step *step, struct err *err)
{
    struct stream_mem *m = of(s);

    int rc = base_files_unchanged(m->cfg.base, err);

    if (rc)
        return rc;
    assert(step->row.step == m->next_step);
    if (!step->skip)
        update_all(m, step);
    for (size_t b = 0; b < run_blocks(&m->cfg); b++)
        m->blocks[b].lent = 0;
    m->next_step++;
    if (m->cfg.commit_every && m->next_step - m->committed.step >= m->cfg.commit_every)
        return commit_image(m, step, err);
    return commit_rows(m, step, NULL, err);
}

static int mem_drain(struct stream *s, struct err *err)
{
    struct stream_mem *m = of(s);
    int                rc = m->next_step == m->committed.step ? 0 : commit_image(m, NULL, err);

    return rc || !m->overflow.n ? rc : run_overflow(&m->cfg, m->next_step, &m->overflow, err);
}

static int mem_begin(struct stream *s, enum stream_pass pass, uint64_t step, struct err *err)
{
    (void)pass, (void)step;
    return of(s)->overflow.n ? mem_drain(s, err) : 0;
}

static int mem_read(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    const struct stream_mem *m = ctx;
    const struct mem_block  *b = &m->blocks[block];
    enum dtype               dt = b->states ? DT_F32 : m->cfg.wire_dt;
    const char              *from = b->states ? (const char *)b->states : b->wire;

    (void)err;
    assert(block < run_blocks(&m->cfg) && first + n <= b->params);
    convert(out, DT_F32, from + first * dtype_bytes(dt), dt, n);
    return 0;
}

static int mem_masters(struct stream *s, uint64_t step, struct params_source *out, struct err *err)
{
    (void)step, (void)err;
    *out = (struct params_source){ mem_read, s };
    return 0;
}

static void mem_hold(struct stream *s)
{
    assert(of(s)->next_step == of(s)->committed.step);
    held_image_begin(&of(s)->held, of(s)->committed.area);
}

static int mem_held_next(struct stream *s, size_t *unit)
{
    *unit = 0;
    return held_image_next(&of(s)->held);
}

static enum stream_held mem_held_look(struct stream *s, size_t unit)
{
    (void)unit;
    return held_image_wanted(&of(s)->held) ? STREAM_HELD_WANTED : STREAM_HELD_IDLE;
}

static uint64_t mem_held_move(struct stream *s, size_t unit, enum link_dir dir, uint64_t bytes)
{
    (void)s, (void)unit, (void)dir, (void)bytes;
    return clock_ns();
}

static void mem_let_go(struct stream *s, size_t unit)
{
    (void)unit;
    held_image_end(&of(s)->held);
}

static void mem_hold_end(struct stream *s) { held_image_end(&of(s)->held); }

/* Areas of the newest image come first, then those of the frozen blocks. */
static size_t mem_area(struct stream *s, size_t i, struct area *out)
{
    struct stream_mem *m = of(s);
    size_t             blocks = run_blocks(&m->cfg), frozen = i >= blocks;

    *out = (struct area){ 0 };
    if (i >= 2 * blocks)
        return 2 * blocks;
    pthread_mutex_lock(&m->lock);
    if (image_area(&m->cfg, frozen ? (unsigned)IMAGE_FROZEN : m->committed.area, i % blocks, out)) {
        out->crc = m->sums[frozen][i % blocks];
        out->version = frozen ? 0 : m->committed.step;
    }
    pthread_mutex_unlock(&m->lock);
    return 2 * blocks;
}

static void mem_close(struct stream *s)
{
    struct stream_mem *m = of(s);

    free(m->sums[0]);
    free(m->sums[1]);
    pthread_mutex_destroy(&m->lock);
    for (unsigned a = 0; a < IMAGE_AREAS; a++)
        if (m->image[a] >= 0)
            close(m->image[a]);
    if (!m->lost)
        arena_free(&m->arena);
    if (m->cfg.log)
        sync_rows(m, RUNLOG_SYNC_ALL, NULL);
    meter_free(m->stream.meter);
    held_image_release(&m->held);
    free(m);
}

static const struct stream_ops stream_mem_ops = {
    .begin = mem_begin,
    .acquire = mem_acquire,
    .grad = mem_grad,
    .send_grad = mem_send_grad,
    .update = mem_update,
    .drain = mem_drain,
    .masters = mem_masters,
    .hold = mem_hold,
    .held_next = mem_held_next,
    .held_look = mem_held_look,
    .held_move = mem_held_move,
    .let_go = mem_let_go,
    .hold_end = mem_hold_end,
    .area = mem_area,
    .close = mem_close,
};

/* ---- opening ---- */

void stream_mem_memory(const struct run_config *cfg, struct run_memory *out)
{
    size_t            n = run_blocks(cfg);
    struct route_span layers = route_shared(&cfg->route);
    struct grad_work  work = work_of(cfg);

    *out = (struct run_memory){
        .compress = work.scratch + work.pairs,
        .spans = (uint64_t)3 * MAX_SPANS * SPAN_BYTES,
        .tables = mem_slices(cfg, NULL) * sizeof(struct slice) +
                  n * round_up(run_groups(cfg), ARENA_LINE),
        .image = image_bytes(cfg),
        .base = cfg->base_end ? base_reader_memory() : 0,
        .device_bytes = IMAGE_AREAS * image_bytes(cfg) + image_frozen_bytes(cfg),
    };
    for (size_t b = 0; b < n; b++) {
        struct mem_bytes of = bytes_of(cfg, b);
        int              layer = b >= layers.first && b < layers.end;

        out->states += of.states - of.residual + (layer ? 0 : of.wire + of.grad);
        out->residual_ram += of.residual;
        out->layer_frame = layer ? of.wire : out->layer_frame;
        out->layer_grad = layer ? of.grad : out->layer_grad;
    }
    out->frames = out->layer_frame * (layers.end - layers.first);
    out->grads = out->layer_grad * (layers.end - layers.first);
}

/* Lays out the arena. The arena calls for this twice. */
static void lay(struct stream_mem *m, struct arena *a)
{
    const struct run_config *cfg = &m->cfg;
    struct grad_work         work = work_of(cfg);

    m->blocks = arena_take(a, run_blocks(cfg) * sizeof *m->blocks);
    m->stored = arena_take(a, run_blocks(cfg) * sizeof *m->stored);
    m->crc = arena_take(a, run_blocks(cfg) * sizeof *m->crc);
    m->slices = arena_take(a, m->n_slices * sizeof *m->slices);
    m->scratch = arena_take(a, work.scratch);
    struct topk_pair *pairs = arena_take(a, work.pairs);
    for (size_t b = 0; b < run_blocks(cfg); b++) {
        struct mem_bytes bytes = bytes_of(cfg, b);
        struct mem_block mb = { .params = cfg->block_params[b], .pairs = pairs };
        int              trains = run_trains(cfg, b);

        if (trains) {
            mb.states = arena_take(a, bytes.states);
            mb.sum.slots = grouped_slots(cfg, b, 0);
            mb.sum.stride = round_up(mb.params * sizeof(float), ARENA_LINE) / sizeof(float);
            mb.grad = mb.sum.grad = arena_take(a, mb.sum.slots * mb.sum.stride * sizeof(float));
            mb.sum.began = arena_take(a, run_groups(cfg));
        }
        mb.wire = bytes.wire ? arena_take(a, bytes.wire) : mb.states;
        if (!m->blocks)
            continue;
        if (cfg->error_feedback && trains) {
            mb.residual = mb.states + image_block_floats(cfg, b) - mb.params;
            pairs += topk_count(mb.params, cfg->compress);
        }
        m->blocks[b] = mb;
        m->stored[b] = trains ? mb.states : mb.wire;
    }
}

/* Reads the blocks that are in place, one after the other, each by several threads. */
static int load_base(struct stream_mem *m, struct err *err)
{
    struct base_reader *reader = NULL;
    struct bell         bell;
    uint64_t            seen = 0;
    int                 rc = 0;

    if (!m->cfg.base)
        return 0;
    bell_init(&bell);
    rc = base_reader_open(&reader, &m->cfg, &bell, err);
    for (size_t b = 0; b < run_blocks(&m->cfg) && !rc; b++) {
        struct base_request q = { .block = b, .n = m->cfg.block_params[b],
                                  .to = m->blocks[b].wire };

        if (!run_in_place(&m->cfg, b))
            continue;
        base_reader_ask(reader, &q);
        while (!base_reader_take(reader))
            seen = bell_wait(&bell, seen, base_reader_rest_ns(reader));
        rc = q.status;
        if (rc && err)
            *err = q.why;
        rc = rc ? rc : watch_look(m->cfg.watch, b + 1, run_blocks(&m->cfg), err);
    }
    m->lost = base_reader_close(reader);
    bell_release(&bell);
    return rc;
}

/* Loads the committed image, and the base. Then touches wire copies and gradients, so that the
 * first step has no page faults. */
static int load_states(struct stream_mem *m, struct err *err)
{
    int rc = image_load(&m->cfg, &m->committed, m->stored, err);

    rc = rc ? rc : image_sums(&m->cfg, m->committed.area, &m->sums[0], err);
    rc = rc ? rc : image_sums(&m->cfg, IMAGE_FROZEN, &m->sums[1], err);
    rc = rc ? rc : load_base(m, err);
    for (unsigned a = 0; a < IMAGE_AREAS && !rc; a++)
        rc = image_open(&m->cfg, a, &m->image[a], err);
    rc = rc ? rc : runlog_unchanged(m->cfg.log, err); // the loaded image is still the last one
    if (rc)
        return rc;
    m->cfg.watch = NULL; // it was lent for loading only
    m->next_step = m->committed.step;
    m->stream.applied = m->committed.applied;
    for (size_t b = 0; b < run_blocks(&m->cfg); b++) {
        struct mem_block *mb = &m->blocks[b];

        if (!mb->states)
            continue;
        if (m->cfg.wire_dt != DT_F32)
            convert(mb->wire, m->cfg.wire_dt, mb->states, DT_F32, mb->params);
        floats_zero(mb->grad, mb->sum.slots * mb->sum.stride);
    }
    return 0;
}

int stream_mem_open(struct stream **out, const struct run_config *cfg, struct err *err)
{
    struct stream_mem *m = calloc(1, sizeof *m);

    *out = NULL;
    if (!m)
        return err_set(err, -ENOMEM, "out of memory for a stream");
    assert(cfg->wire_dt == DT_F32 || cfg->wire_dt == DT_BF16);
    assert(!route_fault(&cfg->route));
    m->stream.ops = &stream_mem_ops;
    pthread_mutex_init(&m->lock, NULL);
    m->image[0] = m->image[1] = -1;
    held_image_init(&m->held);
    m->cfg = *cfg;
    m->stream.meter = meter_new(MAX_SPANS, 0);
    m->n_slices = mem_slices(cfg, NULL);
    lay(m, &m->arena);
    int rc = m->stream.meter
                 ? arena_map(&m->arena, "parameters, states and gradients in --mode mem", err)
                 : err_set(err, -ENOMEM, "out of memory for a stream");
    if (!rc) {
        lay(m, &m->arena);
        mem_slices(cfg, m->slices);
        rc = load_states(m, err);
    }
    rc = rc ? rc : sync_rows(m, RUNLOG_SYNC_LATER, err);
    if (rc)
        mem_close(&m->stream);
    else
        *out = &m->stream;
    return rc;
}
