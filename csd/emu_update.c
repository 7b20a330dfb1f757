/* emu_update.c: the update of an emulated device.
 *
 * An update runs through the stages of a buffer set:
 *
 *     LOAD     states and gradient come in, in chunks (a compressed gradient through the area of
 * the wire); of what is there from the first on, optimizer, wire parameters and the checksums of
 * what came and of what goes are computed in one pass over memory STORE    states and wire go out,
 * if what came was right
 *
 * What the worker computes it computes a slice at a time: between two slices it serves the disk.
 *
 * With two sets (overlapped) one loads while the other stores. naive is the same with a single set,
 * mapped and unmapped by each job, that computes nothing before all is there: each stage ends
 * before the next begins. */
#include "csd/emu.h"

#include "data/base/crc32c.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

int emu_set_allocate(struct emu *e, struct set *s, size_t bytes)
{
    void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (mem == MAP_FAILED)
        return -ENOMEM;
    madvise(mem, bytes, MADV_HUGEPAGE);
    s->mem = mem;
    s->bytes = bytes;
    e->arena_now += bytes;
    if (e->arena_now > __atomic_load_n(&e->arena_peak, __ATOMIC_RELAXED))
        __atomic_store_n(&e->arena_peak, e->arena_now, __ATOMIC_RELAXED);
    return 0;
}

void emu_set_deallocate(struct emu *e, struct set *s)
{
    if (s->mem)
        munmap(s->mem, s->bytes);
    e->arena_now -= s->bytes;
    s->mem = NULL;
    s->bytes = 0;
}

void emu_set_finish(struct emu *e, struct set *s)
{
    struct csd_job *job = s->job;

    if (e->cfg.naive && s->flying == 0) // else the broken disk may still write into it
        emu_set_deallocate(e, s);
    s->stage = SET_FREE;
    s->job = NULL;
    emu_job_finish(e, job);
}

static void set_io_start(struct emu *e, struct set *s, unsigned which, enum link_class cls,
                         enum disk_op op, void *buf, size_t payload, size_t bytes, uint64_t off)
{
    struct io *io = &s->io[which];

    io->job = s->job;
    io->set = s;
    io->cls = cls;
    io->payload = payload;
    s->flying++;
    emu_span_begin(s->job, op == DISK_READ ? SPAN_READ : SPAN_WRITE);
    emu_io_start(e, io, op, buf, bytes, off);
}

/* Ask for the next chunk of a compressed gradient, if there is one; of what is asked for, the bytes
 * of pairs are payload. */
static void pairs_ask(struct emu *e, struct set *s)
{
    const struct csd_update *u = &s->job->update;
    size_t                   total = grad_wire_bytes(u->pairs), at = s->grad_read,
           end_of_pairs = GRAD_WIRE_HEADER + 8 * u->pairs;
    size_t bytes = total - at < s->area.wire_bytes ? total - at : s->area.wire_bytes;
    size_t from = at > GRAD_WIRE_HEADER ? at : GRAD_WIRE_HEADER,
           to = at + bytes < end_of_pairs ? at + bytes : end_of_pairs;

    if (bytes == 0 || s->job->status)
        return;
    s->grad_read += bytes;
    set_io_start(e, s, IO_PAIRS, CLASS_GRADIENT, DISK_READ, s->area.wire, to > from ? to - from : 0,
                 bytes, u->grad_off + at);
}

static void pairs_arrived(struct emu *e, struct set *s, const struct io *io)
{
    struct err why;

    if (s->job->status)
        return;
    s->sums.grad = crc32c(s->sums.grad, io->req.buf, io->req.bytes);
    if (!e->fake && grad_wire_scatter(&s->reader, s->area.grad, io->req.buf, io->req.bytes, &why))
        emu_job_fail(e, s->job, -EBADMSG, "gradient at offset %" PRIu64 ": %s",
                     s->job->update.grad_off, why.text);
    pairs_ask(e, s);
}

static size_t chunk_end(const struct set *s, size_t at)
{
    return s->area.n_pad - at < CHUNK_PARAMS ? s->area.n_pad : at + CHUNK_PARAMS;
}

/* A load's next chunk: a transfer for each part of the states (for all of them where there is one
 * chunk only) and one for a dense gradient. */
static void chunk_ask(struct emu *e, struct set *s)
{
    const struct csd_update  *u = &s->job->update;
    const struct update_area *a = &s->area;
    size_t at = s->asked, end = chunk_end(s, at), k = end - at, n = (u->n < end ? u->n : end) - at;
    int    only = k == u->n_pad, parts = only ? 1 : 1 + a->moments,
        dense = u->grad_form == CSD_GRAD_DENSE;
    size_t   each = only ? a->states_bytes / k : sizeof(float);
    unsigned chunk = at / CHUNK_PARAMS % CHUNKS;

    s->asked = end;
    s->chunk_flying[chunk] = (unsigned)(parts + dense);
    for (int p = 0; p < parts; p++) {
        size_t first = (size_t)p * u->n_pad + at;

        set_io_start(e, s, chunk * CHUNK_IOS + (unsigned)p, CLASS_STATES, DISK_READ,
                     a->states + first, each * n, each * k, u->src_off + sizeof(float) * first);
    }
    if (dense)
        set_io_start(e, s, chunk * CHUNK_IOS + (unsigned)parts, CLASS_GRADIENT, DISK_READ,
                     a->grad + at, sizeof(float) * n, sizeof(float) * k,
                     u->grad_off + sizeof(float) * at);
}

static void chunks_ask(struct emu *e, struct set *s)
{
    while (s->job->status == 0 && s->asked < s->area.n_pad &&
           s->asked - s->ready < CHUNKS * CHUNK_PARAMS)
        chunk_ask(e, s);
}

static void chunk_arrived(struct emu *e, struct set *s, const struct io *io)
{
    s->chunk_flying[(io - s->io) / CHUNK_IOS]--;
    while (s->ready < s->asked && s->chunk_flying[s->ready / CHUNK_PARAMS % CHUNKS] == 0)
        s->ready = chunk_end(s, s->ready);
    chunks_ask(e, s);
}

static void set_load(struct emu *e, struct set *s)
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

/* What is wrong with the job before anything is read. */
static void update_refuse(struct emu *e, struct csd_job *job, const struct update_area *a)
{
    const struct csd_update *u = &job->update;
    uint64_t slot = a->states_bytes + a->wire_bytes, off[] = {u->src_off, u->dst_off, u->grad_off};
    uint64_t bytes[] = {slot, slot,
                        u->grad_form == CSD_GRAD_DENSE ? a->grad_bytes : grad_wire_bytes(u->pairs)};

    assert(u->src_off != u->dst_off && u->n > 0 && u->n <= u->n_pad &&
           u->n_pad <= e->cfg.update_params);
    assert(u->n_pad % CSD_ALIGN_PARAMS == 0);
    if (e->cfg.read_only)
        emu_job_fail(e, job, -EROFS, "is open for reading only");
    for (int i = 0; i < 3; i++)
        if (!emu_in_range(e, off[i], bytes[i]))
            emu_job_fail(e, job, -EINVAL,
                         "%" PRIu64 " bytes at offset %" PRIu64 " are outside its %" PRIu64 " byte"
                                                                                            "s",
                         bytes[i], off[i], e->cfg.bytes);
}

void emu_update_start(struct emu *e, struct set *s, struct csd_job *job)
{
    const struct csd_update *u = &job->update;

    job->start_ns[SPAN_JOB] = clock_ns();
    s->job = job;
    s->turn = e->turns++;
    s->flying = 0;
    update_area_init(&s->area, s->mem, u->n_pad, e->cfg.moments, e->cfg.wire_dt);
    update_refuse(e, job, &s->area);
    if (job->status == 0 && e->cfg.naive) {
        size_t bytes = update_area_bytes(u->n_pad, e->cfg.moments, e->cfg.wire_dt);

        if (emu_set_allocate(e, s, bytes))
            emu_job_fail(e, job, -ENOMEM, "no memory for %zu bytes of its arena", bytes);
        else
            update_area_init(&s->area, s->mem, u->n_pad, e->cfg.moments, e->cfg.wire_dt);
    }
    if (job->status)
        emu_set_finish(e, s);
    else
        set_load(e, s);
}

static void set_store(struct emu *e, struct set *s)
{
    const struct csd_update  *u = &s->job->update;
    const struct update_area *a = &s->area;

    s->stage = SET_STORE;
    set_io_start(e, s, IO_STATES, CLASS_STATES, DISK_WRITE, a->states,
                 a->states_bytes / u->n_pad * u->n, a->states_bytes, u->dst_off);
    set_io_start(e, s, IO_WIRE, CLASS_WIRE, DISK_WRITE, a->wire, a->wire_bytes / u->n_pad * u->n,
                 a->wire_bytes, u->dst_off + a->states_bytes);
}

void emu_set_io_done(struct emu *e, struct io *io)
{
    struct set *s = io->set;

    emu_io_account(e, io);
    emu_span_end(s->job, io->req.op == DISK_READ ? SPAN_READ : SPAN_WRITE);
    s->flying--;
    if (s->stage == SET_LOAD && io == &s->io[IO_PAIRS])
        pairs_arrived(e, s, io);
    else if (s->stage == SET_LOAD)
        chunk_arrived(e, s, io);
    if (s->flying == 0 && (s->job->status || s->stage == SET_STORE))
        emu_set_finish(e, s);
}

/* What came must have been right before anything goes out. */
static void sums_check(struct emu *e, struct set *s)
{
    struct csd_update *u = &s->job->update;
    uint32_t           states = update_sums_states(&s->area, s->sums.read);

    if (!e->fake && states != u->src_crc)
        emu_job_fail(e, s->job, -EBADMSG,
                     "states of %zu bytes at offset %" PRIu64 " have checksum %08" PRIx32
                     ", expected %08" PRIx32,
                     s->area.states_bytes, u->src_off, states, u->src_crc);
    if (!e->fake && s->sums.grad != u->grad_crc)
        emu_job_fail(e, s->job, -EBADMSG,
                     "gradient at offset %" PRIu64 " has checksum %08" PRIx32 ", expected "
                                                                              "%08" PRIx32,
                     u->grad_off, s->sums.grad, u->grad_crc);
    u->dst_crc = update_sums_states(&s->area, s->sums.written);
    u->wire_crc = s->sums.wire;
}

/* Parameters that can be computed by now, from the first on. */
static size_t set_ready(const struct emu *e, const struct set *s)
{
    if (s->stage != SET_LOAD || s->job->status)
        return 0;
    return s->flying > 0 && (e->cfg.naive || s->job->update.grad_form == CSD_GRAD_PAIRS) ? 0
                                                                                         : s->ready;
}

static void compute_slice(struct emu *e, struct set *s, size_t ready)
{
    size_t left = ready - s->at, n = left < SLICE_PARAMS ? left : SLICE_PARAMS;

    emu_span_begin(s->job, SPAN_COMPUTE);
    update_area_pass(&s->area, &s->job->update, s->at, n, &s->sums);
    emu_span_end(s->job, SPAN_COMPUTE);
    s->at += n;
    if (s->at < s->area.n_pad)
        return;
    sums_check(e, s);
    if (s->job->status)
        emu_set_finish(e, s);
    else
        set_store(e, s);
}

/* A slice of work for the oldest set that has any; whether there was one. */
int emu_set_work(struct emu *e)
{
    struct set *pick = NULL;
    size_t      ready = 0;

    for (int i = 0; i < e->n_sets; i++) {
        struct set *s = &e->sets[i];

        if (set_ready(e, s) > s->at && (!pick || s->turn < pick->turn)) {
            pick = s;
            ready = set_ready(e, s);
        }
    }
    if (pick)
        compute_slice(e, pick, ready);
    return pick != NULL;
}
