/* worker_update.c: runs the stages of an update in a set of buffers: loading, computing, storing
 * (worker.h). */
#include "csd/devices/worker.h"

#include "data/base/clock.h"
#include "data/base/round.h"

enum { CHUNK_PARAMS = 1 << 18, SLICE_PARAMS = 1 << 16 };

/* Begins a transfer or the engine's work in a part of an update. The part is busy while at least
 * one of them is under way; in between it waits. */
static void part_begin(struct worker_set *s, enum csd_span part)
{
    uint64_t now = clock_ns();

    if (s->job->start_ns[part] == 0)
        s->job->start_ns[part] = now;
    if (s->under_way[part]++ == 0)
        s->since_ns[part] = now;
}

static void part_end(struct worker_set *s, enum csd_span part)
{
    uint64_t now = clock_ns();

    s->job->end_ns[part] = now;
    if (--s->under_way[part] == 0)
        s->job->busy_ns[part] += now - s->since_ns[part];
}

static unsigned transfers(const struct worker_set *s)
{
    return s->under_way[SPAN_READ] + s->under_way[SPAN_WRITE];
}

static enum csd_span io_span(const struct worker_io *io)
{
    return io->req.op == DISK_READ ? SPAN_READ : SPAN_WRITE;
}

/* ---- sets ---- */

static int is_naive(const struct worker *w) { return w->cfg.handler == CSD_NAIVE; }

static int set_alloc(struct worker *w, struct worker_set *s, size_t n_pad, struct err *err)
{
    return w->engine->ops->alloc(w->engine, &s->mem,
                                 update_area_bytes(n_pad, w->cfg.moments, w->cfg.wire_dt), err);
}

static void set_release(struct worker *w, struct worker_set *s)
{
    if (w->engine)
        w->engine->ops->release(w->engine, &s->mem);
}

static void set_finish(struct worker *w, struct worker_set *s)
{
    struct csd_job *job = s->job;

    if (is_naive(w) && transfers(s) == 0) // otherwise a broken disk may still write into it
        set_release(w, s);
    s->stage = SET_FREE;
    s->job = NULL;
    job->end_ns[SPAN_JOB] = clock_ns();
    csd_ahead_over(job, &w->finished);
    list_push(&w->finished, job);
}

int worker_updates_init(struct worker *w, struct err *err)
{
    int rc = 0;

    w->n_sets = is_naive(w) ? 1 : WORKER_SETS;
    for (int i = 0; i < w->n_sets && !is_naive(w) && !rc; i++)
        rc = set_alloc(w, &w->sets[i], w->cfg.update_params, err);
    return rc;
}

void worker_updates_release(struct worker *w)
{
    for (int i = 0; i < w->n_sets; i++)
        set_release(w, &w->sets[i]);
}

int worker_updates_running(const struct worker *w)
{
    int n = 0;

    for (int i = 0; i < w->n_sets; i++)
        n += w->sets[i].stage != SET_FREE;
    return n;
}

/* ---- loading ---- */

/* Starts transfer number `which` of the set. what: its req, class and payload. */
static void set_io_start(struct worker *w, struct worker_set *s, unsigned which,
                         struct worker_io what)
{
    what.job = s->job;
    what.set = s;
    s->io[which] = what;
    part_begin(s, io_span(&what));
    worker_io_start(w, &s->io[which]);
}

/* Asks for the next chunk of a compressed gradient, if there is one. Its payload is the bytes of
 * pairs. */
static void pairs_ask(struct worker *w, struct worker_set *s)
{
    const struct csd_update  *u = &s->job->update;
    const struct update_area *a = &s->mem.area;
    size_t at = s->grad_asked, bytes = size_min(grad_wire_bytes(u->pairs) - at, a->wire_bytes);
    size_t from = size_max(at, GRAD_WIRE_HEADER);
    size_t to = size_min(at + bytes, GRAD_WIRE_HEADER + 8 * u->pairs);

    if (bytes == 0 || s->job->status)
        return;
    s->grad_asked += bytes;
    set_io_start(w, s, IO_PAIRS,
                 (struct worker_io){.req = {.op = DISK_READ, .buf = a->wire, .bytes = bytes,
                                            .off = u->grad_off + at},
                                    .cls = CLASS_GRADIENT, .payload = to > from ? to - from : 0});
}

static void pairs_arrived(struct worker *w, struct worker_set *s, const struct worker_io *io)
{
    if (s->job->status)
        return;
    s->grad_here = io->req.bytes;
    if (csd_disk_is_fake(&w->cfg)) { // a fake disk gives no pairs
        s->scattered += s->grad_here;
        s->grad_here = 0;
        pairs_ask(w, s);
    }
}

static void pairs_scattered(struct worker *w, struct worker_set *s)
{
    if (s->mem.status)
        csd_job_fail(&w->cfg, s->job, s->mem.status, "gradient at offset %" PRIu64 ": %s",
                     s->job->update.grad_off, s->mem.why.text);
    s->scattered += s->grad_here;
    s->grad_here = 0;
    pairs_ask(w, s);
}

static size_t chunk_end(const struct worker_set *s, size_t at)
{
    return size_min(s->mem.area.n_pad, at + CHUNK_PARAMS);
}

/* Asks for the next chunk: one transfer for each part of the states (or for all of them, if there
 * is only one chunk) and one for a dense gradient. */
static void chunk_ask(struct worker *w, struct worker_set *s)
{
    const struct csd_update  *u = &s->job->update;
    const struct update_area *a = &s->mem.area;
    size_t at = s->asked, end = chunk_end(s, at), k = end - at, n = size_min(u->n, end) - at;
    int    only = k == u->n_pad, parts = only ? 1 : 1 + a->moments;
    int    dense = u->grad_form == CSD_GRAD_DENSE;
    size_t   each = only ? a->states_bytes / k : sizeof(float);
    unsigned chunk = at / CHUNK_PARAMS % WORKER_CHUNKS;

    s->asked = end;
    s->chunk_flying[chunk] = (unsigned)(parts + dense);
    for (int p = 0; p < parts; p++) {
        size_t first = (size_t)p * u->n_pad + at;

        set_io_start(w, s, chunk * WORKER_CHUNK_IOS + (unsigned)p,
                     (struct worker_io){.req = {.op = DISK_READ, .buf = a->states + first,
                                                .bytes = each * k,
                                                .off = u->src_off + sizeof(float) * first},
                                        .cls = CLASS_STATES, .payload = each * n});
    }
    if (dense)
        set_io_start(w, s, chunk * WORKER_CHUNK_IOS + (unsigned)parts,
                     (struct worker_io){.req = {.op = DISK_READ, .buf = a->grad + at,
                                                .bytes = sizeof(float) * k,
                                                .off = u->grad_off + sizeof(float) * at},
                                        .cls = CLASS_GRADIENT, .payload = sizeof(float) * n});
}

static void chunks_ask(struct worker *w, struct worker_set *s)
{
    while (s->job->status == 0 && s->asked < s->mem.area.n_pad &&
           s->asked - s->ready < WORKER_CHUNKS * CHUNK_PARAMS)
        chunk_ask(w, s);
}

static void chunk_arrived(struct worker *w, struct worker_set *s, const struct worker_io *io)
{
    s->chunk_flying[(io - s->io) / WORKER_CHUNK_IOS]--;
    while (s->ready < s->asked && s->chunk_flying[s->ready / CHUNK_PARAMS % WORKER_CHUNKS] == 0)
        s->ready = chunk_end(s, s->ready);
    chunks_ask(w, s);
}

static void set_load(struct worker *w, struct worker_set *s)
{
    s->stage = SET_LOAD;
    s->asked = s->ready = s->computed = 0;
    s->grad_asked = s->grad_here = s->scattered = 0;
    s->mem.sums = (struct update_sums){0};
    chunks_ask(w, s);
    if (s->job->update.grad_form == CSD_GRAD_PAIRS)
        pairs_ask(w, s);
}

void worker_update_start(struct worker *w, struct csd_job *job)
{
    const struct csd_config *c = &w->cfg;
    struct worker_set       *s = w->sets;
    size_t                   n_pad = job->update.n_pad;
    struct err               err;

    while (s->stage != SET_FREE)
        s++;
    job->start_ns[SPAN_JOB] = clock_ns();
    s->job = job;
    s->sequence = w->n_started++;
    memset(s->under_way, 0, sizeof s->under_way);
    csd_job_check(c, w->base.ops->caps, job);
    if (job->status == 0 && is_naive(w) && set_alloc(w, s, n_pad, &err))
        csd_job_fail(c, job, -ENOMEM, "%s", err.text);
    if (job->status) {
        set_finish(w, s);
        return;
    }
    s->mem.u = &job->update;
    update_area_init(&s->mem.area, s->mem.base, n_pad, c->moments, c->wire_dt);
    set_load(w, s);
}

/* ---- storing ---- */

static void write_start(struct worker *w, struct worker_set *s, unsigned which,
                        enum link_class cls, void *from, size_t bytes)
{
    const struct csd_update *u = &s->job->update;
    uint64_t                 at = (uint64_t)((char *)from - (char *)s->mem.area.states);

    set_io_start(w, s, which,
                 (struct worker_io){.req = {.op = DISK_WRITE, .buf = from, .bytes = bytes,
                                            .off = u->dst_off + at},
                                    .cls = cls, .payload = bytes / u->n_pad * u->n});
}

static void moments_store(struct worker *w, struct worker_set *s)
{
    const struct update_area *a = &s->mem.area;
    size_t                    master = sizeof(float) * a->n_pad;

    s->stage = SET_MOMENTS;
    write_start(w, s, IO_MOMENTS, CLASS_STATES, a->states + a->n_pad, a->states_bytes - master);
}

static void set_store(struct worker *w, struct worker_set *s)
{
    const struct update_area *a = &s->mem.area;

    s->stage = SET_PARAMS;
    write_start(w, s, IO_WIRE, CLASS_WIRE, a->wire, a->wire_bytes);
    write_start(w, s, IO_MASTER, CLASS_STATES, a->states, sizeof(float) * a->n_pad);
    if (is_naive(w))
        moments_store(w, s);
}

/* Goes on if nothing moves or works in the set any more (a broken disk's transfers do not move):
 * with the set's store, or by freeing it when its job is over. */
static void set_rest(struct worker *w, struct worker_set *s)
{
    if ((transfers(s) > 0 && !w->broken) || s->under_way[SPAN_COMPUTE])
        return;
    if (s->job->status || s->stage == SET_MOMENTS)
        set_finish(w, s);
    else if (s->stage == SET_PARAMS)
        moments_store(w, s);
}

void worker_update_io_over(struct worker *w, struct worker_io *io)
{
    struct worker_set *s = io->set;

    worker_io_account(w, io);
    part_end(s, io_span(io));
    if (s->stage == SET_LOAD && io == &s->io[IO_PAIRS])
        pairs_arrived(w, s, io);
    else if (s->stage == SET_LOAD)
        chunk_arrived(w, s, io);
    else if (io == &s->io[IO_WIRE])
        csd_ahead_over(s->job, &w->finished);
    set_rest(w, s);
}

void worker_updates_break(struct worker *w)
{
    for (int i = 0; i < w->n_sets; i++) {
        struct worker_set *s = &w->sets[i];

        if (s->stage == SET_FREE)
            continue;
        for (int k = 0; k < SET_IOS; k++)
            if (s->io[k].at_disk) {
                s->io[k].req.status = w->broken;
                worker_io_account(w, &s->io[k]);
            }
        worker_job_broken(w, s->job);
        set_rest(w, s);
    }
}

/* ---- computing ---- */

/* Finds the next work for the set, or n 0. */
static void work_find(const struct worker *w, struct worker_set *s)
{
    const struct engine_ops *ops = w->engine->ops;
    struct engine_set       *m = &s->mem;
    int                      pairs = s->job->update.grad_form == CSD_GRAD_PAIRS;
    int                      whole = is_naive(w) || !ops->in_slices || pairs;

    m->n = 0;
    if (s->grad_here > 0) {
        m->what = ENGINE_SCATTER;
        m->at = s->scattered;
        m->n = s->grad_here;
    } else if (!whole || transfers(s) == 0) {
        m->what = ENGINE_PASS;
        m->at = s->computed;
        m->n = size_min(s->ready - s->computed, ops->in_slices ? SLICE_PARAMS : SIZE_MAX);
    }
}

static void work_give(struct worker *w)
{
    struct worker_set *pick = NULL;

    for (int i = 0; i < w->n_sets; i++) {
        struct worker_set *s = &w->sets[i];

        if (s->stage != SET_LOAD || s->job->status || (pick && pick->sequence < s->sequence))
            continue;
        work_find(w, s);
        if (s->mem.n > 0)
            pick = s;
    }
    if (!pick)
        return;
    part_begin(pick, SPAN_COMPUTE);
    w->engine->ops->start(w->engine, &pick->mem);
}

static void pass_over(struct worker *w, struct worker_set *s)
{
    if (s->mem.status)
        csd_job_fail(&w->cfg, s->job, s->mem.status, "%s", s->mem.why.text);
    s->computed += s->mem.n;
    if (s->job->status || s->computed < s->mem.area.n_pad)
        return;
    csd_sums_check(&w->cfg, s->job, &s->mem.area, &s->mem.sums);
    if (s->job->status == 0)
        set_store(w, s);
}

/* The engine broke: updates that it has not computed fail; computed ones are stored. */
static void engine_broke(struct worker *w)
{
    for (int i = 0; i < w->n_sets; i++) {
        struct worker_set *s = &w->sets[i];

        if (s->stage != SET_LOAD)
            continue;
        worker_job_broken(w, s->job);
        set_rest(w, s);
    }
}

int worker_update_work(struct worker *w)
{
    struct engine_set *over;
    int                at_work = 0;

    for (int i = 0; i < w->n_sets; i++)
        at_work |= w->sets[i].under_way[SPAN_COMPUTE] > 0;
    if (!at_work && !w->broken && !w->engine->broken)
        work_give(w);
    over = w->engine->ops->poll(w->engine);
    for (int i = 0; i < w->n_sets; i++) {
        struct worker_set *s = &w->sets[i];

        if (over != &s->mem)
            continue;
        part_end(s, SPAN_COMPUTE);
        if (s->mem.what == ENGINE_SCATTER)
            pairs_scattered(w, s);
        else
            pass_over(w, s);
        set_rest(w, s);
    }
    if (over && w->engine->broken)
        engine_broke(w);
    return over != NULL;
}
