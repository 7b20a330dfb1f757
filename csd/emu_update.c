/* emu_update.c: the update of an emulated device.
 *
 * An update runs through the stages of a buffer set:
 *
 *     LOAD     states and gradient come in (a compressed one in chunks, through the area of the wire)
 *     CHECK    the checksums of what came
 *     COMPUTE  optimizer, wire parameters
 *     STORE    master and wire go out first, then the moments; meanwhile their checksums are taken
 *
 * What the worker computes it computes a slice at a time: between two slices it serves the disk.
 *
 * With two sets (overlapped) one loads while the other computes and stores. naive is the same with a single
 * set, mapped and unmapped by each job, and with checksums before stores: each stage ends before the next
 * begins. */
#include "csd/emu.h"

#include "data/crc32c.h"

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

static void set_io_start(struct emu *e, struct set *s, enum set_io which, enum link_class cls,
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

/* Ask for the next chunk of a compressed gradient, if there is one; of what is asked for, the bytes of pairs
 * are payload. */
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
    set_io_start(e, s, IO_GRAD, CLASS_GRADIENT, DISK_READ, s->area.wire, to > from ? to - from : 0, bytes,
                 u->grad_off + at);
}

static void pairs_arrived(struct emu *e, struct set *s, const struct io *io)
{
    struct err why;

    if (s->job->status)
        return;
    s->grad_crc = crc32c(s->grad_crc, io->req.buf, io->req.bytes);
    if (!e->fake && grad_wire_scatter(&s->reader, s->area.grad, io->req.buf, io->req.bytes, &why))
        emu_job_fail(e, s->job, -EBADMSG, "gradient at offset %" PRIu64 ": %s", s->job->update.grad_off,
                     why.text);
    pairs_ask(e, s);
}

static void set_load(struct emu *e, struct set *s)
{
    const struct csd_update  *u = &s->job->update;
    const struct update_area *a = &s->area;

    s->stage = SET_LOAD;
    s->grad_crc = 0;
    set_io_start(e, s, IO_STATES, CLASS_STATES, DISK_READ, a->states, a->states_bytes / u->n_pad * u->n,
                 a->states_bytes, u->src_off);
    if (u->grad_form == CSD_GRAD_DENSE) {
        set_io_start(e, s, IO_GRAD, CLASS_GRADIENT, DISK_READ, a->grad, 4 * u->n, a->grad_bytes, u->grad_off);
    } else {
        memset(a->grad, 0, a->grad_bytes);
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

    assert(u->src_off != u->dst_off && u->n > 0 && u->n <= u->n_pad && u->n_pad <= e->cfg.update_params);
    assert(u->n_pad % CSD_ALIGN_PARAMS == 0);
    if (e->cfg.read_only)
        emu_job_fail(e, job, -EROFS, "is open for reading only");
    for (int i = 0; i < 3; i++)
        if (!emu_in_range(e, off[i], bytes[i]))
            emu_job_fail(e, job, -EINVAL,
                         "%" PRIu64 " bytes at offset %" PRIu64 " are outside its %" PRIu64 " bytes",
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

/* Master and wire, which the host waits for; then the moments. */
static void store_first(struct emu *e, struct set *s)
{
    const struct csd_update  *u = &s->job->update;
    const struct update_area *a = &s->area;

    s->n_stored = 1;
    set_io_start(e, s, IO_MASTER, CLASS_STATES, DISK_WRITE, a->states, 4 * u->n, 4 * u->n_pad, u->dst_off);
    set_io_start(e, s, IO_WIRE, CLASS_WIRE, DISK_WRITE, a->wire, a->wire_bytes / u->n_pad * u->n,
                 a->wire_bytes, u->dst_off + a->states_bytes);
}

static void store_moments(struct emu *e, struct set *s)
{
    const struct csd_update  *u = &s->job->update;
    const struct update_area *a = &s->area;
    size_t                    bytes = 4 * (size_t)a->moments * u->n_pad;

    s->n_stored = 2;
    set_io_start(e, s, IO_MOMENTS, CLASS_STATES, DISK_WRITE, a->states + u->n_pad, bytes / u->n_pad * u->n,
                 bytes, u->dst_off + 4 * u->n_pad);
}

/* Nothing of s is in flight: what comes next, in the stages that wait for transfers. */
static void set_advance(struct emu *e, struct set *s)
{
    if (s->job->status) {
        emu_set_finish(e, s);
    } else if (s->stage == SET_LOAD) {
        s->stage = SET_CHECK;
        s->at = 0;
        s->crc = 0;
    } else if (s->stage == SET_STORE && s->n_stored == 1) {
        store_moments(e, s);
    } else if (s->stage == SET_STORE && s->n_stored == 2 && s->summed) {
        emu_set_finish(e, s);
    }
}

void emu_set_io_done(struct emu *e, struct io *io)
{
    struct set *s = io->set;

    emu_io_account(e, io);
    emu_span_end(s->job, io->req.op == DISK_READ ? SPAN_READ : SPAN_WRITE);
    s->flying--;
    if (s->stage == SET_LOAD && io->cls == CLASS_GRADIENT && s->job->update.grad_form == CSD_GRAD_PAIRS)
        pairs_arrived(e, s, io);
    if (s->flying == 0)
        set_advance(e, s);
}

/* CHECK: states first, then a dense gradient. Both must be right before anything is computed. */
static void check_slice(struct emu *e, struct set *s)
{
    const struct csd_update *u = &s->job->update;
    const char              *from = (const char *)s->area.states;
    size_t                   left = s->area.states_bytes - s->at, n = left < SLICE_BYTES ? left : SLICE_BYTES;

    emu_span_begin(s->job, SPAN_COMPUTE);
    if (s->at < s->area.states_bytes) {
        s->crc = crc32c(s->crc, from + s->at, n);
        s->at += n;
        return;
    }
    if (u->grad_form == CSD_GRAD_DENSE)
        s->grad_crc = crc32c(0, s->area.grad, s->area.grad_bytes);
    if (!e->fake && s->crc != u->src_crc)
        emu_job_fail(e, s->job, -EBADMSG,
                     "states of %zu bytes at offset %" PRIu64 " have checksum %08" PRIx32
                     ", expected %08" PRIx32,
                     s->area.states_bytes, u->src_off, s->crc, u->src_crc);
    if (!e->fake && s->grad_crc != u->grad_crc)
        emu_job_fail(e, s->job, -EBADMSG,
                     "gradient at offset %" PRIu64 " has checksum %08" PRIx32 ", expected %08" PRIx32,
                     u->grad_off, s->grad_crc, u->grad_crc);
    s->stage = SET_COMPUTE;
    s->at = 0;
    if (s->job->status)
        emu_set_finish(e, s);
}

static void compute_slice(struct emu *e, struct set *s)
{
    size_t left = s->area.n_pad - s->at, n = left < SLICE_PARAMS ? left : SLICE_PARAMS;

    update_area_compute(&s->area, &s->job->update, s->at, n);
    s->at += n;
    if (s->at < s->area.n_pad)
        return;
    s->stage = SET_STORE;
    s->at = 0;
    s->crc = 0;
    s->summed = s->n_stored = 0;
    if (!e->cfg.naive)
        store_first(e, s);
}

/* STORE's checksums, taken while (naive: before) the bytes go out. */
static void sum_slice(struct emu *e, struct set *s)
{
    struct csd_update *u = &s->job->update;
    const char        *from = (const char *)s->area.states;
    size_t             left = s->area.states_bytes - s->at, n = left < SLICE_BYTES ? left : SLICE_BYTES;

    if (s->at < s->area.states_bytes) {
        s->crc = crc32c(s->crc, from + s->at, n);
        s->at += n;
        return;
    }
    u->dst_crc = s->crc;
    u->wire_crc = crc32c(0, s->area.wire, s->area.wire_bytes);
    s->summed = 1;
    emu_span_end(s->job, SPAN_COMPUTE);
    if (e->cfg.naive) {
        store_first(e, s);
        store_moments(e, s);
    } else if (s->flying == 0) {
        set_advance(e, s);
    }
}

/* A slice of work for the oldest set that has any; whether there was one. */
int emu_set_work(struct emu *e)
{
    struct set *pick = NULL;

    for (int i = 0; i < e->n_sets; i++) {
        struct set *s = &e->sets[i];
        int has = s->stage == SET_CHECK || s->stage == SET_COMPUTE || (s->stage == SET_STORE && !s->summed);

        if (has && (!pick || s->turn < pick->turn))
            pick = s;
    }
    if (!pick)
        return 0;
    if (pick->stage == SET_CHECK)
        check_slice(e, pick);
    else if (pick->stage == SET_COMPUTE)
        compute_slice(e, pick);
    else
        sum_slice(e, pick);
    return 1;
}
