/* emu_update.c: the stages of an update; see the header. */
#include "csd/emu.h"

#include "data/base/clock.h"
#include "data/base/crc32c.h"
#include "data/base/round.h"

enum { CHUNK_PARAMS = 1 << 18, SLICE_PARAMS = 1 << 16 };

static void span_begin(struct csd_job *job, enum csd_span s)
{
    if (job->start_ns[s] == 0)
        job->start_ns[s] = clock_ns();
}

static void span_end(struct csd_job *job, enum csd_span s) { job->end_ns[s] = clock_ns(); }

static enum csd_span io_span(const struct emu_io *io)
{
    return io->req.op == DISK_READ ? SPAN_READ : SPAN_WRITE;
}

/* ---- sets ---- */

static int set_map(struct emu_set *s, size_t n_pad, const struct csd_config *c, struct err *err)
{
    arena_take(&s->mem, update_area_bytes(n_pad, c->moments, c->wire_dt));
    return arena_map(&s->mem, "updates of an emulated device", err);
}

static void set_finish(struct emu *e, struct emu_set *s)
{
    struct csd_job *job = s->job;

    if (e->cfg.naive && s->flying == 0) // else the broken disk may still write into it
        arena_free(&s->mem);
    s->stage = SET_FREE;
    s->job = NULL;
    span_end(job, SPAN_JOB);
    list_push(&e->finished, job);
}

int emu_updates_init(struct emu *e, struct err *err)
{
    const struct csd_config *c = &e->cfg;
    int                      rc = 0;

    e->n_sets = c->naive ? 1 : EMU_SETS;
    for (int i = 0; i < e->n_sets; i++) {
        e->sets[i].mem.align = ARENA_IO;
        if (!c->naive && !rc)
            rc = set_map(&e->sets[i], c->update_params, c, err);
    }
    return rc;
}

void emu_updates_release(struct emu *e)
{
    for (int i = 0; i < e->n_sets; i++)
        arena_free(&e->sets[i].mem);
}

int emu_updates_running(const struct emu *e)
{
    int n = 0;

    for (int i = 0; i < e->n_sets; i++)
        n += e->sets[i].stage != SET_FREE;
    return n;
}

void emu_updates_break(struct emu *e, int rc)
{
    for (int i = 0; i < e->n_sets; i++) {
        struct emu_set *s = &e->sets[i];

        if (s->stage == SET_FREE)
            continue;
        for (int k = 0; k < SET_IOS; k++)
            if (s->io[k].at_disk) {
                s->io[k].req.status = rc;
                emu_io_account(e, &s->io[k]);
            }
        csd_job_fail(&e->cfg, s->job, rc, "the disk cannot be used any more: %s", strerror(-rc));
        set_finish(e, s);
    }
}

/* ---- loading ---- */

/* Start transfer number `which` of the set; what: its req, class and payload. */
static void set_io_start(struct emu *e, struct emu_set *s, unsigned which,
                         struct emu_io what)
{
    what.job = s->job;
    what.set = s;
    s->io[which] = what;
    s->flying++;
    span_begin(s->job, io_span(&what));
    emu_io_start(e, &s->io[which]);
}

/* Ask for the next chunk of a compressed gradient, if there is one; of what is asked for, the bytes
 * of pairs are payload. */
static void pairs_ask(struct emu *e, struct emu_set *s)
{
    const struct csd_update *u = &s->job->update;
    size_t at = s->grad_read, bytes = size_min(grad_wire_bytes(u->pairs) - at, s->area.wire_bytes);
    size_t from = size_max(at, GRAD_WIRE_HEADER);
    size_t to = size_min(at + bytes, GRAD_WIRE_HEADER + 8 * u->pairs);

    if (bytes == 0 || s->job->status)
        return;
    s->grad_read += bytes;
    set_io_start(e, s, IO_PAIRS,
                 (struct emu_io){.req = {.op = DISK_READ, .buf = s->area.wire, .bytes = bytes,
                                         .off = u->grad_off + at},
                                 .cls = CLASS_GRADIENT, .payload = to > from ? to - from : 0});
}

static void pairs_arrived(struct emu *e, struct emu_set *s, const struct emu_io *io)
{
    struct err why;

    if (s->job->status)
        return;
    s->sums.grad = crc32c(s->sums.grad, io->req.buf, io->req.bytes);
    if (!csd_disk_is_fake(&e->cfg) &&
        grad_wire_scatter(&s->reader, s->area.grad, io->req.buf, io->req.bytes, &why))
        csd_job_fail(&e->cfg, s->job, -EBADMSG, "gradient at offset %" PRIu64 ": %s",
                     s->job->update.grad_off, why.text);
    pairs_ask(e, s);
}

static size_t chunk_end(const struct emu_set *s, size_t at)
{
    return size_min(s->area.n_pad, at + CHUNK_PARAMS);
}

/* A load's next chunk: a transfer for each part of the states (for all of them where there is one
 * chunk only) and one for a dense gradient. */
static void chunk_ask(struct emu *e, struct emu_set *s)
{
    const struct csd_update  *u = &s->job->update;
    const struct update_area *a = &s->area;
    size_t at = s->asked, end = chunk_end(s, at), k = end - at, n = size_min(u->n, end) - at;
    int    only = k == u->n_pad, parts = only ? 1 : 1 + a->moments;
    int    dense = u->grad_form == CSD_GRAD_DENSE;
    size_t   each = only ? a->states_bytes / k : sizeof(float);
    unsigned chunk = at / CHUNK_PARAMS % EMU_CHUNKS;

    s->asked = end;
    s->chunk_flying[chunk] = (unsigned)(parts + dense);
    for (int p = 0; p < parts; p++) {
        size_t first = (size_t)p * u->n_pad + at;

        set_io_start(e, s, chunk * EMU_CHUNK_IOS + (unsigned)p,
                     (struct emu_io){.req = {.op = DISK_READ, .buf = a->states + first,
                                             .bytes = each * k,
                                             .off = u->src_off + sizeof(float) * first},
                                     .cls = CLASS_STATES, .payload = each * n});
    }
    if (dense)
        set_io_start(e, s, chunk * EMU_CHUNK_IOS + (unsigned)parts,
                     (struct emu_io){.req = {.op = DISK_READ, .buf = a->grad + at,
                                             .bytes = sizeof(float) * k,
                                             .off = u->grad_off + sizeof(float) * at},
                                     .cls = CLASS_GRADIENT, .payload = sizeof(float) * n});
}

static void chunks_ask(struct emu *e, struct emu_set *s)
{
    while (s->job->status == 0 && s->asked < s->area.n_pad &&
           s->asked - s->ready < EMU_CHUNKS * CHUNK_PARAMS)
        chunk_ask(e, s);
}

static void chunk_arrived(struct emu *e, struct emu_set *s, const struct emu_io *io)
{
    s->chunk_flying[(io - s->io) / EMU_CHUNK_IOS]--;
    while (s->ready < s->asked && s->chunk_flying[s->ready / CHUNK_PARAMS % EMU_CHUNKS] == 0)
        s->ready = chunk_end(s, s->ready);
    chunks_ask(e, s);
}

static void set_load(struct emu *e, struct emu_set *s)
{
    const struct csd_update *u = &s->job->update;

    s->stage = SET_LOAD;
    s->asked = s->ready = s->at = 0;
    s->sums = (struct update_sums){0};
    chunks_ask(e, s);
    if (u->grad_form == CSD_GRAD_PAIRS) {
        memset(s->area.grad, 0, s->area.grad_bytes);
        grad_wire_begin(&s->reader, u->n, u->pairs);
        s->grad_read = 0;
        pairs_ask(e, s);
    }
}

void emu_update_start(struct emu *e, struct csd_job *job)
{
    const struct csd_config *c = &e->cfg;
    struct emu_set          *s = e->sets;
    size_t                   n_pad = job->update.n_pad;
    struct err               err;

    while (s->stage != SET_FREE)
        s++;
    job->start_ns[SPAN_JOB] = clock_ns();
    s->job = job;
    s->turn = e->turns++;
    s->flying = 0;
    csd_job_check(c, job);
    if (job->status == 0 && c->naive && set_map(s, n_pad, c, &err))
        csd_job_fail(c, job, -ENOMEM, "%s", err.text);
    if (job->status) {
        set_finish(e, s);
        return;
    }
    update_area_init(&s->area, s->mem.base, n_pad, c->moments, c->wire_dt);
    set_load(e, s);
}

/* ---- storing ---- */

static void set_store(struct emu *e, struct emu_set *s)
{
    const struct csd_update  *u = &s->job->update;
    const struct update_area *a = &s->area;

    s->stage = SET_STORE;
    set_io_start(e, s, IO_STATES,
                 (struct emu_io){.req = {.op = DISK_WRITE, .buf = a->states,
                                         .bytes = a->states_bytes, .off = u->dst_off},
                                 .cls = CLASS_STATES,
                                 .payload = a->states_bytes / u->n_pad * u->n});
    set_io_start(e, s, IO_WIRE,
                 (struct emu_io){.req = {.op = DISK_WRITE, .buf = a->wire, .bytes = a->wire_bytes,
                                         .off = u->dst_off + a->states_bytes},
                                 .cls = CLASS_WIRE, .payload = a->wire_bytes / u->n_pad * u->n});
}

void emu_update_io_over(struct emu *e, struct emu_io *io)
{
    struct emu_set *s = io->set;

    emu_io_account(e, io);
    span_end(s->job, io_span(io));
    s->flying--;
    if (s->stage == SET_LOAD && io == &s->io[IO_PAIRS])
        pairs_arrived(e, s, io);
    else if (s->stage == SET_LOAD)
        chunk_arrived(e, s, io);
    if (s->flying == 0 && (s->job->status || s->stage == SET_STORE))
        set_finish(e, s);
}

/* Parameters that can be computed by now, from the first on. */
static size_t set_ready(const struct emu *e, const struct emu_set *s)
{
    if (s->stage != SET_LOAD || s->job->status)
        return 0;
    if (s->flying > 0 && (e->cfg.naive || s->job->update.grad_form == CSD_GRAD_PAIRS))
        return 0;
    return s->ready;
}

static void compute_slice(struct emu *e, struct emu_set *s, size_t ready)
{
    size_t n = size_min(ready - s->at, SLICE_PARAMS);

    span_begin(s->job, SPAN_COMPUTE);
    update_area_pass(&s->area, &s->job->update, s->at, n, &s->sums);
    span_end(s->job, SPAN_COMPUTE);
    s->at += n;
    if (s->at < s->area.n_pad)
        return;
    csd_sums_check(&e->cfg, s->job, &s->area, &s->sums);
    if (s->job->status)
        set_finish(e, s);
    else
        set_store(e, s);
}

int emu_update_work(struct emu *e)
{
    struct emu_set *pick = NULL;

    for (int i = 0; i < e->n_sets; i++) {
        struct emu_set *s = &e->sets[i];

        if (set_ready(e, s) > s->at && (!pick || s->turn < pick->turn))
            pick = s;
    }
    if (pick)
        compute_slice(e, pick, set_ready(e, pick));
    return pick != NULL;
}
