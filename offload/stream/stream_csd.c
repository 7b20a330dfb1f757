/* stream_csd.c: runs the training stream over devices. It joins the parts, says in which order the
 * scheduler lets them submit, and hands each call of stream.h to the part that does it. There are
 * three threads. The model's thread asks, and waits in scheduler.h. The scheduler's thread alone
 * submits and reaps. The committer (commits.h) writes run.db.
 *
 * Each part says what has become possible. This file says what goes first, because a drive serves
 * requests in the order in which it gets them. */
#include "offload/stream/stream_open.h"

#include "data/base/round.h"
#include "offload/devices/areas.h"
#include "offload/devices/slots.h"
#include "offload/estimate/step_work.h"
#include "offload/stream/act_stack.h"
#include "offload/stream/commits.h"
#include "offload/stream/frames.h"

#include <assert.h>

struct stream_csd {
    struct stream        stream;
    struct scheduler     sched;
    struct subs          subs;
    struct frames        frames;
    struct gradients     gradients;
    struct updates       updates;
    struct act_stack     acts;
    struct commits       commits;
    struct arena         tables;  // tables of the parts
    struct slots_reader  masters; // while they are lent, the scheduler's thread is stopped
    struct journal       newest;  // a commit's subs, from which masters are read
};

static struct stream_csd *of(struct stream *s) { return (struct stream_csd *)s; }

/* ---- the scheduler's thread */

/* Lets all parts submit. First comes what the next forward waits for longest: updates, then reads
 * of what is updated. Backward's gradients follow, then activations, then a commit of what was
 * reaped so far. Lock held. */
static int advance(void *stream, struct err *err)
{
    struct stream_csd *s = stream;
    int                progress = updates_advance(&s->updates);

    int rc = frames_advance(&s->frames, err);
    progress |= rc;
    rc = rc < 0 ? rc : gradients_advance(&s->gradients, err);
    progress |= rc;
    if (rc < 0)
        return rc;
    progress |= act_stack_advance(&s->acts);
    rc = commits_advance(&s->commits, err);
    return rc < 0 ? rc : progress | rc;
}

static int polls(void *stream)
{
    struct stream_csd *s = stream;

    return s->frames.gathering > 0 || s->commits.awaits_ranks ||
           exchange_state(&s->gradients.exchange) == EXCHANGE_UNDER_WAY;
}

/* ---- the model's side */

static int csd_begin(struct stream *stream, enum stream_pass pass, uint64_t step, struct err *err)
{
    struct stream_csd *s = of(stream);

    scheduler_lock(&s->sched);
    assert(act_stack_depth(&s->acts) == 0);
    s->sched.step = step;
    frames_begin(&s->frames, pass, s->updates.applied);
    return scheduler_unlock(&s->sched, 1, err);
}

static void csd_expect(struct stream *stream, const struct optim_step *optim)
{
    struct stream_csd *s = of(stream);

    scheduler_lock(&s->sched);
    updates_expect(&s->updates, optim);
    scheduler_unlock(&s->sched, 0, NULL);
}

static int csd_acquire(struct stream *s, size_t block, const void **wire, struct err *err)
{
    return frames_acquire(&of(s)->frames, block, wire, err);
}

static void csd_release(struct stream *stream, size_t block)
{
    struct stream_csd *s = of(stream);

    scheduler_lock(&s->sched);
    frames_release(&s->frames, block);
    scheduler_unlock(&s->sched, 1, NULL);
}

static int csd_grad(struct stream *s, size_t block, size_t group, float **grad, int *fresh,
                    struct err *err)
{
    return gradients_lend(&of(s)->gradients, block, group, grad, fresh, err);
}

static int csd_send_grad(struct stream *stream, size_t block, struct norm_sum *norm,
                         struct err *err)
{
    struct stream_csd *s = of(stream);
    int                rc = gradients_send(&s->gradients, block, norm, err);

    if (rc || !norm->nonfinite)
        return rc;
    scheduler_lock(&s->sched);
    s->updates.expecting = 0; // the step will be skipped
    return scheduler_unlock(&s->sched, 0, err);
}

static int csd_norm(struct stream *s, struct norm_sum *norm, struct err *err)
{
    return gradients_norm(&of(s)->gradients, norm, err);
}

static int csd_push(struct stream *s, int first, void **item, struct err *err)
{
    return act_stack_push(&of(s)->acts, first, item, err);
}

static void csd_pushed(struct stream *s, size_t bytes, size_t left)
{
    act_stack_pushed(&of(s)->acts, bytes, left);
}

static int csd_pop(struct stream *s, void **item, struct err *err)
{
    return act_stack_pop(&of(s)->acts, item, err);
}

static void csd_popped(struct stream *s) { act_stack_popped(&of(s)->acts); }

static enum runlog_phase waits_for(const struct stream_csd *s, int drains)
{
    if (drains)
        return PHASE_WAIT_DRAIN;
    return s->updates.to_update > 0 ? PHASE_WAIT_UPDATE : PHASE_WAIT_COMMIT;
}

/* Waits for the last commit of all that was asked for. Returns whether it left elements unchanged.
 * 0 also if the stream has failed. Lock held. A drain's wait counts to the next step. */
static int committed_wait(struct stream_csd *s, int drains)
{
    struct scheduler_wait wait = { .block = -1 };
    struct err      why;

    while ((s->updates.ask != ASK_NONE || s->commits.awaits_ranks) &&
           scheduler_wait(&s->sched, &wait, waits_for(s, drains)))
        ;
    scheduler_waited_in(&s->sched, &wait, drains ? s->subs.state.next_step : s->sched.step);
    if (!s->sched.failed && s->subs.overflow.n) {
        int rc = run_overflow(&s->sched.cfg, s->subs.state.next_step, &s->subs.overflow, &why);

        scheduler_fail(&s->sched, rc, &why);
    }
    return !s->sched.failed;
}

static int csd_update(struct stream *stream, const struct stream_step *step, struct err *err)
{
    struct stream_csd *s = of(stream);
    struct stream_step asked = *step;
    int                rc = base_files_unchanged(s->sched.cfg.base, err);

    if (rc)
        return rc;
    scheduler_lock(&s->sched);
    if (committed_wait(s, 0)) {
        act_stack_settle(&s->acts);
        asked.row.seconds = stream_step_over(stream, step);
        updates_ask(&s->updates, &asked);
        stream->applied = s->updates.applied;
        gradients_end(&s->gradients, step->skip);
    }
    return scheduler_unlock(&s->sched, 1, err);
}

static int csd_drain(struct stream *stream, struct err *err)
{
    struct stream_csd *s = of(stream);

    scheduler_lock(&s->sched);
    committed_wait(s, 1);
    int rc = scheduler_unlock(&s->sched, 0, err);
    return rc ? rc : base_files_unchanged(s->sched.cfg.base, err); // what was evaluated counts
}

static int csd_masters(struct stream *stream, uint64_t step, struct params_source *out,
                       struct err *err)
{
    struct stream_csd   *s = of(stream);
    struct slots_reader *m = &s->masters;

    scheduler_lock(&s->sched);
    assert(s->updates.ask == ASK_NONE);
    int rc = scheduler_unlock(&s->sched, 0, err);
    rc = rc ? rc : slots_reader_open(m, &s->sched.dev, &s->newest, err);
    if (rc)
        return rc;
    scheduler_stop(&s->sched);
    m->meter = s->sched.meter;
    m->step = step;
    s->newest.subs = s->commits.job.j.subs;
    for (size_t i = 0; i < s->sched.dev.store.n_subs; i++)
        s->newest.subs[i] = s->subs.sub[i].newest;
    *out = (struct params_source){ slots_reader_read, m };
    return 0;
}

static int csd_masters_end(struct stream *s, struct err *err)
{
    slots_reader_close(&of(s)->masters);
    return scheduler_start(&of(s)->sched, err);
}

/* ---- what a snapshot's copier reads. It reads the files itself, next to the scheduler, so it
 * takes its time of the modelled links itself. */

static void csd_hold(struct stream *stream)
{
    struct stream_csd *s = of(stream);

    assert(s->updates.ask == ASK_NONE);
    scheduler_lock(&s->sched);
    subs_hold(&s->subs);
    scheduler_unlock(&s->sched, 0, NULL);
}

static int csd_held_next(struct stream *stream, size_t *sub)
{
    struct stream_csd *s = of(stream);

    scheduler_lock(&s->sched);
    int any = subs_held_next(&s->subs, s->sched.cfg.speculate, sub);
    scheduler_unlock(&s->sched, 0, NULL);
    return any;
}

static struct link *drive_of(const struct stream_csd *s, size_t sub)
{
    const struct devices   *d = &s->sched.dev;
    const struct link_ends *e = topology_ends(d->links, d->store.subs[sub].device);

    return e ? e->drive : NULL;
}

static enum stream_held csd_held_look(struct stream *stream, size_t sub)
{
    struct stream_csd *s = of(stream);
    size_t             device = s->sched.dev.store.subs[sub].device;

    scheduler_lock(&s->sched);
    int wanted = s->subs.wanted, tasks = s->sched.dev.device[device].tasks > 0;
    scheduler_unlock(&s->sched, 0, NULL);
    return wanted ? STREAM_HELD_WANTED
           : tasks || link_idle_ns(drive_of(s, sub)) > clock_ns() ? STREAM_HELD_BUSY
                                                                  : STREAM_HELD_IDLE;
}

static uint64_t csd_held_move(struct stream *s, size_t sub, enum link_dir dir, uint64_t bytes)
{
    struct link *drive = drive_of(of(s), sub), *from = dir == LINK_READ ? drive : NULL;

    return link_take(from, from ? NULL : drive, bytes, clock_ns());
}

static void csd_let_go(struct stream *stream, size_t sub)
{
    struct stream_csd *s = of(stream);

    scheduler_lock(&s->sched);
    subs_let_go(&s->subs, sub);
    scheduler_unlock(&s->sched, 1, NULL);
}

static void csd_hold_end(struct stream *stream)
{
    struct stream_csd *s = of(stream);

    scheduler_lock(&s->sched);
    for (size_t i = 0; s->subs.held && i < s->subs.store->n_subs; i++)
        subs_let_go(&s->subs, i);
    scheduler_unlock(&s->sched, 1, NULL);
}

/* ---- of any thread: what is stored, and the end */

static size_t csd_area(struct stream *stream, size_t i, struct area *out)
{
    struct stream_csd  *s = of(stream);
    const struct store *st = &s->sched.dev.store;
    size_t              sub = i / AREAS_OF_SUB, n = st->n_subs * AREAS_OF_SUB;

    *out = (struct area){ 0 };
    if (i >= n)
        return n;
    scheduler_lock(&s->sched);
    const struct sub *u = &s->subs.sub[sub];
    *out = area_of(st, sub, area_kind(&st->subs[sub], i % AREAS_OF_SUB), &u->committed,
                   s->subs.state.applied, u->residual_crc);
    scheduler_unlock(&s->sched, 0, NULL);
    return n;
}

static void csd_close(struct stream *stream)
{
    struct stream_csd *s = of(stream);

    slots_reader_close(&s->masters);
    scheduler_stop(&s->sched);
    int over = frames_give_up(&s->frames) & exchange_give_up(&s->gradients.exchange) &
               commits_give_up(&s->commits);
    over &= !frames_close(&s->frames);
    if (!over) // other ranks, or reads of a base, may use this memory until the process ends
        s->sched.dev.silent = 1;
    exchange_close(&s->gradients.exchange);
    commits_close(&s->commits);
    devices_close(&s->sched.dev); // waits for tasks under way, which are in the parts' tables
    act_stack_close(&s->acts);
    if (over)
        arena_free(&s->tables);
    meter_free(s->sched.meter);
    scheduler_release(&s->sched);
    free(s);
}

static void csd_rest(struct stream *s) { act_stack_rest(&of(s)->acts); }

static int csd_work(struct stream *stream, struct stream_work *out, struct err *err)
{
    const struct scheduler  *h = &of(stream)->sched;
    const struct run_acts   *acts = &h->cfg.acts;
    struct step_halves       half;
    const struct step_rates  at_once = { 0 };
    int rc = step_work_halves(&half, &h->cfg, h->dev.links, &at_once, err);

    if (!rc)
        *out = (struct stream_work){ .may_offload = acts->n > 0,
                                     .buffers = acts->buffers,
                                     .forward = half.forward, .backward = half.backward,
                                     .write = half.write, .read = half.read };
    return rc;
}

static const struct stream_ops csd_ops_ = {
    .begin = csd_begin,
    .expect = csd_expect,
    .acquire = csd_acquire,
    .release = csd_release,
    .grad = csd_grad,
    .send_grad = csd_send_grad,
    .norm = csd_norm,
    .push = csd_push,
    .pushed = csd_pushed,
    .pop = csd_pop,
    .popped = csd_popped,
    .rest = csd_rest,
    .work = csd_work,
    .update = csd_update,
    .drain = csd_drain,
    .masters = csd_masters,
    .masters_end = csd_masters_end,
    .hold = csd_hold,
    .held_next = csd_held_next,
    .held_look = csd_held_look,
    .held_move = csd_held_move,
    .let_go = csd_let_go,
    .hold_end = csd_hold_end,
    .area = csd_area,
    .close = csd_close,
};

/* ---- opening */

/* Tells each part which others it works with. Comes first. */
static void parts_join(struct stream_csd *s, const struct run_config *cfg)
{
    s->sched.cfg = *cfg;
    s->sched.advance = advance;
    s->sched.polls = polls;
    s->sched.ctx = s;
    s->sched.cfg.ranks.size = size_max(cfg->ranks.size, 1);
    s->sched.cfg.ranks.groups = size_max(cfg->ranks.groups, 1);
    s->sched.cfg.residual_in_ram = cfg->error_feedback && cfg->residual_in_ram;
    s->frames.sched = s->gradients.sched = s->updates.sched = &s->sched;
    s->acts.sched = s->commits.sched = &s->sched;
    s->frames.subs = s->gradients.subs = s->updates.subs = s->commits.subs = &s->subs;
    s->commits.gradients = &s->gradients;
    s->commits.updates = &s->updates;
}

static void tables_lay(struct stream_csd *s, const struct store *st, struct arena *a)
{
    subs_tables(&s->subs, st, a);
    frames_tables(&s->frames, st, a);
    gradients_tables(&s->gradients, st, a);
    updates_tables(&s->updates, st, a);
    act_stack_tables(&s->acts, a);
    commits_tables(&s->commits, st, a);
}

static void buffers_lay(void *stream, const struct store *st, struct arena *a)
{
    struct stream_csd *s = stream;

    frames_lay(&s->frames, st, a);
    gradients_lay(&s->gradients, st, a);
}

static int tables_open(struct stream_csd *s, struct err *err)
{
    struct store st;
    int          rc = store_init(&st, &s->sched.cfg, err);

    if (rc)
        return rc;
    tables_lay(s, &st, &s->tables);
    rc = arena_map(&s->tables, "the tables of subgroups", err);
    if (!rc)
        tables_lay(s, &st, &s->tables);
    store_release(&st);
    return rc;
}

int stream_csd_open(struct stream **out, const struct run_config *cfg, char *notice,
                    size_t notice_size, struct err *err)
{
    struct stream_csd  *s = calloc(1, sizeof *s);
    struct devices_more more = { .lay = buffers_lay, .ctx = s, .notice = notice,
                                 .notice_size = notice_size };

    assert(!route_fault(&cfg->route));
    if (!s)
        return err_set(err, -ENOMEM, "out of memory for the stream");
    parts_join(s, cfg);
    scheduler_init(&s->sched);
    s->sched.meter = meter_new(SCHEDULER_SPANS, cfg->n_devices + cfg->n_act_devices + 2);
    int rc = s->sched.meter ? tables_open(s, err)
                          : err_set(err, -ENOMEM, "out of memory for measurements");
    rc = rc ? rc : act_stack_open(&s->acts, err);
    rc = rc ? rc : devices_open(&s->sched.dev, &s->sched.cfg, DEVICES_TRAIN, &more, err);
    rc = rc ? rc : runlog_unchanged(cfg->log, err); // before anything is written to devices
    rc = rc ? rc : commits_open(&s->commits, err);
    rc = rc ? rc : gradients_open(&s->gradients, err);
    rc = rc ? rc : frames_open(&s->frames, err);
    if (!rc) {
        updates_open(&s->updates);
        s->sched.rest_ns = frames_rest_ns(&s->frames);
        rc = scheduler_start(&s->sched, err);
    }
    s->stream = (struct stream){ &csd_ops_, s->sched.meter, s->updates.applied };
    if (rc)
        csd_close(&s->stream);
    else
        *out = &s->stream;
    return rc;
}

/* Bytes of all frames, or of all gradient buffers, with `shared` buffers for layers. */
static uint64_t frames_sum(const struct run_config *cfg)
{
    const struct route *o = &cfg->route;
    uint64_t            sum = 0;

    for (size_t i = 0, alike; (alike = route_buffers_alike(o, ROUTE_FRAMES, cfg->frames, i));
         i += alike)
        sum += alike *
               frames_bytes(cfg, route_buffer_blocks(o, ROUTE_FRAMES, cfg->frames, i));
    return sum;
}

static struct gradient_bytes gradients_sum(const struct run_config *cfg, const struct store *st,
                                           size_t shared)
{
    const struct route   *o = &cfg->route;
    struct gradient_bytes sum = { 0 };

    for (size_t i = 0, alike; (alike = route_buffers_alike(o, ROUTE_GRADS, shared, i));
         i += alike) {
        struct gradient_bytes b =
            gradients_bytes(cfg, st, route_buffer_blocks(o, ROUTE_GRADS, shared, i));

        sum.grad += alike * b.grad;
        sum.pack += alike * (b.pack + b.lists);
        sum.residual += alike * b.residual;
    }
    return sum;
}

/* Counts tables as if every layer had a frame and a buffer, which is little more. */
int stream_csd_memory(const struct run_config *cfg, struct run_memory *out, struct err *err)
{
    struct stream_csd     s = { 0 };
    struct store          st;
    struct route_span     layers = route_shared(&cfg->route);
    int                   rc = store_init(&st, cfg, err);

    if (rc)
        return rc;
    struct gradient_bytes layer = gradients_bytes(cfg, &st, layers),
                          all = gradients_sum(cfg, &st, cfg->grad_buffers),
                          ends = gradients_sum(cfg, &st, 0);
    parts_join(&s, cfg);
    s.sched.cfg.frames = s.sched.cfg.grad_buffers = st.n_blocks;
    tables_lay(&s, &st, &s.tables);
    struct grad_work work = grad_work(cfg); // in tables
    *out = (struct run_memory){
        .masters = store_state_bytes(&st, st.max_pad),
        .layer_frame = frames_bytes(cfg, layers),
        .layer_grad = layer.grad + layer.pack + layer.lists,
        .frames = frames_sum(cfg),
        .grads = all.grad + all.pack,
        .compress = work.pairs + work.scratch,
        .residual_ends = ends.residual,
        .residual_layer = layer.residual,
        .record_buffer = act_stack_buffer(cfg),
        .spans = SCHEDULER_SPANS_BYTES,
        .base = cfg->base_end ? base_reader_memory() : 0,
        .tables = s.tables.used - work.pairs - work.scratch +
                  st.n_subs * (sizeof(struct journal_sub) + sizeof(struct journal_grad) +
                               sizeof(uint32_t)),
    };
    for (size_t b = 0; st.error_feedback && b < st.n_blocks; b++)
        out->residual_ram +=
            run_trains(cfg, b) ? store_residual_bytes(store_pad(st.block_params[b])) : 0;
    devices_memory(cfg, &st, out);
    store_release(&st);
    return 0;
}
