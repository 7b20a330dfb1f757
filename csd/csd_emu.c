/* csd_emu.c: an emulated device: one worker thread with a disk of its own, memory limited to csd-mem, and the
 * update by the same kernels. The order of this file: jobs and failures, transfers, host jobs, the stages of
 * an update, the worker, the calls.
 *
 * The owner and the worker meet in two lists, `inbox` and `outbox`, under one mutex; everything else after
 * open is the worker's. A transfer is over when the disk is done with it and the modelled link would be.
 *
 * A disk that can no longer be reaped, or that was silent for timeout_ns with requests in flight, is broken: what
 * is in flight fails, and so does every job after it. Requests that are still the disk's are given up: they, the
 * device and its memory stay for ever, since an answer may still come. Only what the disk does counts as silence,
 * not what a modelled link delays; and not more than a slice of it at a time, so that a process that was stopped,
 * or a clock that jumped, breaks nothing.
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
#include "csd/csd.h"
#include "csd/disk_file.h"
#include "csd/grad_wire.h"
#include "csd/updater.h"
#include "data/clock.h"
#include "data/crc32c.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <omp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    EMU_ALIGN = 4096,
    SETS = 2,
    HOST_IOS = 48,
    DEPTH = 64,
    REAP = 32,
    SLICE_PARAMS = 1 << 16,
    SLICE_BYTES = 1 << 20,
    SILENCE_SLICES = 8
};

enum set_io { IO_STATES, IO_GRAD, IO_MASTER = IO_STATES, IO_WIRE = IO_GRAD, IO_MOMENTS, SET_IOS };

enum set_stage { SET_FREE, SET_LOAD, SET_CHECK, SET_COMPUTE, SET_STORE };

struct io {
    struct disk_req req;
    struct csd_job *job;
    struct set     *set; // NULL: a host job's
    enum link_class cls;
    size_t          payload;
    int             at_disk; // the disk has it
    uint64_t        over_ns; // not before
    struct io      *next;    // free, or delayed
};

struct set {
    enum set_stage          stage;
    struct csd_job         *job;
    uint64_t                turn; // order of jobs
    void                   *mem;
    size_t                  bytes;
    struct update_area      area;
    unsigned                flying; // its transfers
    size_t                  at; // progress of CHECK (bytes), COMPUTE (parameters), STORE's checksums (bytes)
    uint32_t                crc, grad_crc;
    size_t                  grad_read; // bytes of a compressed gradient asked for
    struct grad_wire_reader reader;
    int                     summed, n_stored; // STORE: checksums taken; parts sent (0, first, all)
    struct io               io[SET_IOS];
};

struct emu {
    struct csd        base;
    struct csd_config cfg;
    char             *path;
    struct disk      *disk;
    int               fake; // nothing is stored: nothing to compare
    size_t            arena_now, arena_peak;
    int               n_sets, broken; // broken: -errno of a disk that can no longer be used
    unsigned          n_at_disk;
    uint64_t          moved, listened_ns, silent_ns; // signs of life: the last count; when it was taken; none for so long
    uint64_t          turns;
    struct set        sets[SETS];
    struct io         host_io[HOST_IOS];
    struct io        *free_io, *delayed;
    struct csd_list   host_jobs, updates; // taken from the inbox, not started

    pthread_t       thread;
    int             started;
    pthread_mutex_t mutex; // over what follows
    struct csd_list inbox, outbox;
    int             stop;
};

/* ---- jobs and failures ---- */

/* The first failure of a job is the one it reports. */
static void job_fail(const struct emu *e, struct csd_job *job, int rc, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static void job_fail(const struct emu *e, struct csd_job *job, int rc, const char *fmt, ...)
{
    char        text[256];
    const char *path = e->path;
    size_t      length = strlen(path), most = sizeof job->why - sizeof text - 40;
    va_list     ap;

    if (job->status)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    job->status = rc;
    if (length > most) // a long path gives way, but for its end
        snprintf(job->why, sizeof job->why, "device %d (...%s): %s", e->cfg.id, path + length - most, text);
    else
        snprintf(job->why, sizeof job->why, "device %d (%s): %s", e->cfg.id, path, text);
}

static void job_finish(struct emu *e, struct csd_job *job)
{
    job->end_ns[SPAN_JOB] = clock_ns();
    pthread_mutex_lock(&e->mutex);
    csd_list_push(&e->outbox, job);
    pthread_mutex_unlock(&e->mutex);
    csd_bell_ring(e->cfg.bell);
}

static void span_begin(struct csd_job *job, enum csd_span s)
{
    if (job->start_ns[s] == 0)
        job->start_ns[s] = clock_ns();
}

static void span_end(struct csd_job *job, enum csd_span s)
{
    job->end_ns[s] = clock_ns();
}

/* ---- transfers ---- */

static enum link_kind io_link(const struct emu *e, const struct io *io)
{
    return io->set && !e->cfg.update_on_host ? LINK_INTERNAL : LINK_HOST;
}

static enum link_dir io_dir(const struct io *io)
{
    return io->req.op == DISK_READ ? LINK_READ : LINK_WRITE;
}

static void io_delay(struct emu *e, struct io *io)
{
    io->next = e->delayed;
    e->delayed = io;
}

/* When a transfer that starts now is over, as the links go: what the SSD reads or writes takes its own link, whoever asked; what
 * comes from or goes to the host takes the host's as well. */
static uint64_t io_over(struct emu *e, const struct io *io, uint64_t now)
{
    uint64_t ssd = link_reserve(e->cfg.internal, io_dir(io), io->req.bytes, now);
    uint64_t host = io_link(e, io) == LINK_HOST ? link_reserve(e->cfg.host, io_dir(io), io->req.bytes, now) : now;

    return ssd > host ? ssd : host;
}

/* Start io, whose job, class and payload are set. A disk that refuses it is a transfer that failed. */
static void io_start(struct emu *e, struct io *io, enum disk_op op, void *buf, size_t bytes, uint64_t off)
{
    int rc = e->broken;

    assert(!io->at_disk);
    io->req = (struct disk_req){.op = op, .buf = buf, .bytes = bytes, .off = off, .user = io};
    io->over_ns = 0;
    if (rc == 0)
        rc = disk_submit(e->disk, &io->req);
    if (rc) {
        io->req.status = rc;
        io_delay(e, io);
        return;
    }
    io->at_disk = 1;
    e->n_at_disk++;
    if (op != DISK_FLUSH)
        io->over_ns = io_over(e, io, clock_ns());
}

/* "write of 4096 bytes at offset 8192" */
static const char *io_describe(const struct io *io, char *text, size_t size)
{
    static const char *const verb[] = {"read", "write", "flush"};

    if (io->req.op == DISK_FLUSH)
        snprintf(text, size, "flush");
    else
        snprintf(text, size, "%s of %zu bytes at offset %" PRIu64, verb[io->req.op], io->req.bytes, io->req.off);
    return text;
}

/* Enter a transfer that is over into its job's accounts. */
static void io_account(struct emu *e, struct io *io)
{
    struct disk_req *r = &io->req;
    char             what[96];

    if (r->status)
        job_fail(e, io->job, r->status, "%s: %s", io_describe(io, what, sizeof what), strerror(-r->status));
    else if (r->op != DISK_FLUSH)
        csd_meter(&io->job->meter, io_link(e, io), io->cls, io_dir(io), io->payload, r->bytes);
}

/* ---- host jobs ---- */

static int job_in_range(const struct emu *e, uint64_t off, uint64_t bytes)
{
    return off <= e->cfg.bytes && bytes <= e->cfg.bytes - off;
}

static void host_start(struct emu *e, struct csd_job *job)
{
    struct io *io = e->free_io;

    job->start_ns[SPAN_JOB] = clock_ns();
    if (job->kind != CSD_FLUSH && !job_in_range(e, job->off, job->bytes))
        job_fail(e, job, -EINVAL, "%zu bytes at offset %" PRIu64 " are outside its %" PRIu64 " bytes",
                 job->bytes, job->off, e->cfg.bytes);
    else if (job->kind == CSD_WRITE && e->cfg.read_only)
        job_fail(e, job, -EROFS, "is open for reading only");
    if (job->status) {
        job_finish(e, job);
        return;
    }
    e->free_io = io->next;
    io->job = job;
    io->cls = job->cls;
    io->payload = job->payload;
    io_start(e, io,
             job->kind == CSD_READ    ? DISK_READ
             : job->kind == CSD_WRITE ? DISK_WRITE
                                      : DISK_FLUSH,
             job->buf, job->bytes, job->off);
}

static void host_done(struct emu *e, struct io *io)
{
    io_account(e, io);
    job_finish(e, io->job);
    io->next = e->free_io;
    e->free_io = io;
}

/* ---- the stages of an update ---- */

static int set_allocate(struct emu *e, struct set *s, size_t bytes)
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

static void set_deallocate(struct emu *e, struct set *s)
{
    if (s->mem)
        munmap(s->mem, s->bytes);
    e->arena_now -= s->bytes;
    s->mem = NULL;
    s->bytes = 0;
}

static void set_finish(struct emu *e, struct set *s)
{
    struct csd_job *job = s->job;

    if (e->cfg.naive && s->flying == 0) // else the broken disk may still write into it
        set_deallocate(e, s);
    s->stage = SET_FREE;
    s->job = NULL;
    job_finish(e, job);
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
    span_begin(s->job, op == DISK_READ ? SPAN_READ : SPAN_WRITE);
    io_start(e, io, op, buf, bytes, off);
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
        job_fail(e, s->job, -EBADMSG, "gradient at offset %" PRIu64 ": %s", s->job->update.grad_off,
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
        job_fail(e, job, -EROFS, "is open for reading only");
    for (int i = 0; i < 3; i++)
        if (!job_in_range(e, off[i], bytes[i]))
            job_fail(e, job, -EINVAL,
                     "%" PRIu64 " bytes at offset %" PRIu64 " are outside its %" PRIu64 " bytes", bytes[i],
                     off[i], e->cfg.bytes);
}

static void update_start(struct emu *e, struct set *s, struct csd_job *job)
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

        if (set_allocate(e, s, bytes))
            job_fail(e, job, -ENOMEM, "no memory for %zu bytes of its arena", bytes);
        else
            update_area_init(&s->area, s->mem, u->n_pad, e->cfg.moments, e->cfg.wire_dt);
    }
    if (job->status)
        set_finish(e, s);
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
        set_finish(e, s);
    } else if (s->stage == SET_LOAD) {
        s->stage = SET_CHECK;
        s->at = 0;
        s->crc = 0;
    } else if (s->stage == SET_STORE && s->n_stored == 1) {
        store_moments(e, s);
    } else if (s->stage == SET_STORE && s->n_stored == 2 && s->summed) {
        set_finish(e, s);
    }
}

static void set_io_done(struct emu *e, struct io *io)
{
    struct set *s = io->set;

    io_account(e, io);
    span_end(s->job, io->req.op == DISK_READ ? SPAN_READ : SPAN_WRITE);
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

    span_begin(s->job, SPAN_COMPUTE);
    if (s->at < s->area.states_bytes) {
        s->crc = crc32c(s->crc, from + s->at, n);
        s->at += n;
        return;
    }
    if (u->grad_form == CSD_GRAD_DENSE)
        s->grad_crc = crc32c(0, s->area.grad, s->area.grad_bytes);
    if (!e->fake && s->crc != u->src_crc)
        job_fail(e, s->job, -EBADMSG,
                 "states of %zu bytes at offset %" PRIu64 " have checksum %08" PRIx32 ", expected %08" PRIx32,
                 s->area.states_bytes, u->src_off, s->crc, u->src_crc);
    if (!e->fake && s->grad_crc != u->grad_crc)
        job_fail(e, s->job, -EBADMSG,
                 "gradient at offset %" PRIu64 " has checksum %08" PRIx32 ", expected %08" PRIx32,
                 u->grad_off, s->grad_crc, u->grad_crc);
    s->stage = SET_COMPUTE;
    s->at = 0;
    if (s->job->status)
        set_finish(e, s);
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
    span_end(s->job, SPAN_COMPUTE);
    if (e->cfg.naive) {
        store_first(e, s);
        store_moments(e, s);
    } else if (s->flying == 0) {
        set_advance(e, s);
    }
}

/* A slice of work for the oldest set that has any; whether there was one. */
static int set_work(struct emu *e)
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

/* ---- the worker ---- */

static void io_done(struct emu *e, struct io *io)
{
    if (io->set)
        set_io_done(e, io);
    else
        host_done(e, io);
}

/* Finish the delayed transfers that are over by now. */
static void delayed_finish(struct emu *e)
{
    struct io *list = e->delayed;
    uint64_t   now = clock_ns();

    e->delayed = NULL;
    while (list) {
        struct io *io = list;

        list = io->next;
        if (io->over_ns > now)
            io_delay(e, io);
        else
            io_done(e, io);
    }
}

/* Nanoseconds until the next delayed transfer is over, or -1. */
static int64_t delayed_wait(const struct emu *e)
{
    uint64_t now = clock_ns(), next = UINT64_MAX;

    for (const struct io *io = e->delayed; io; io = io->next)
        next = io->over_ns < next ? io->over_ns : next;
    return next == UINT64_MAX ? -1 : next > now ? (int64_t)(next - now) : 0;
}

/* Sort what the owner submitted into the queues. Whether the worker is to go on. */
static int inbox_take(struct emu *e)
{
    struct csd_job *job;
    int             go_on;

    pthread_mutex_lock(&e->mutex);
    while ((job = csd_list_pop(&e->inbox)) != NULL)
        csd_list_push(job->kind == CSD_UPDATE ? &e->updates : &e->host_jobs, job);
    go_on = !e->stop;
    pthread_mutex_unlock(&e->mutex);
    return go_on;
}

static void jobs_start(struct emu *e)
{
    struct csd_job *job;

    while (e->broken && ((job = csd_list_pop(&e->host_jobs)) || (job = csd_list_pop(&e->updates)))) {
        job_fail(e, job, e->broken, "the disk cannot be used any more: %s", strerror(-e->broken));
        job_finish(e, job);
    }
    while (e->host_jobs.first && e->free_io)
        host_start(e, csd_list_pop(&e->host_jobs));
    for (int i = 0; i < e->n_sets; i++)
        while (e->sets[i].stage == SET_FREE && (job = csd_list_pop(&e->updates)) != NULL)
            update_start(e, &e->sets[i], job);
}

static int emu_idle(const struct emu *e)
{
    int n_free = 0, busy = e->host_jobs.first || e->updates.first;

    for (int i = 0; i < e->n_sets; i++)
        busy |= e->sets[i].stage != SET_FREE;
    for (const struct io *io = e->free_io; io; io = io->next)
        n_free++;
    return !busy && n_free == HOST_IOS;
}

static int io_is_free(const struct emu *e, const struct io *io)
{
    const struct io *f = e->free_io;

    while (f && f != io)
        f = f->next;
    return f != NULL;
}

/* The disk cannot be used any more: everything in flight fails, and so will everything to come. */
static void emu_break(struct emu *e, int rc)
{
    e->broken = rc;
    e->delayed = NULL;
    for (int i = 0; i < HOST_IOS; i++) {
        struct io *io = &e->host_io[i];

        if (io_is_free(e, io))
            continue;
        io->req.status = rc;
        host_done(e, io);
    }
    for (int i = 0; i < e->n_sets; i++) {
        struct set *s = &e->sets[i];

        if (s->stage == SET_FREE)
            continue;
        job_fail(e, s->job, rc, "the disk cannot be used any more: %s", strerror(-rc));
        set_finish(e, s);
    }
}

static void io_give_up(struct emu *e, struct io *io)
{
    char what[96];

    if (io->at_disk)
        job_fail(e, io->job, -ETIMEDOUT,
                 "%s has had no answer for %.3g s, nor has any of the %u requests in flight (--io-timeout): they are given up",
                 io_describe(io, what, sizeof what), (double)e->cfg.timeout_ns * 1e-9, e->n_at_disk);
}

static void emu_give_up(struct emu *e)
{
    for (int i = 0; i < HOST_IOS; i++)
        io_give_up(e, &e->host_io[i]);
    for (int i = 0; i < e->n_sets; i++)
        for (int k = 0; k < SET_IOS; k++)
            io_give_up(e, &e->sets[i].io[k]);
    emu_break(e, -ETIMEDOUT);
}

/* Nothing was reaped just now: is it long since there was a sign of life? */
static void silence_count(struct emu *e)
{
    uint64_t now = clock_ns(), moved = disk_moved(e->disk), slice = e->cfg.timeout_ns / SILENCE_SLICES + 1,
             passed = now - e->listened_ns;

    if (e->n_at_disk == 0 || moved != e->moved)
        e->silent_ns = 0;
    else
        e->silent_ns += passed < slice ? passed : slice;
    e->moved = moved;
    e->listened_ns = now;
    if (e->cfg.timeout_ns > 0 && e->silent_ns >= e->cfg.timeout_ns)
        emu_give_up(e);
}

/* As long as wait_ns, but so that silence is noticed. */
static int64_t listen_wait(const struct emu *e, int64_t wait_ns)
{
    int64_t slice = (int64_t)(e->cfg.timeout_ns / SILENCE_SLICES) + 1;

    if (e->cfg.timeout_ns == 0 || e->n_at_disk == 0)
        return wait_ns;
    return wait_ns < 0 || wait_ns > slice ? slice : wait_ns;
}

static void disk_serve(struct emu *e, int64_t wait_ns)
{
    struct disk_req *done[REAP];
    int              n;

    if (e->broken) {
        usleep(1000);
        return;
    }
    n = disk_reap(e->disk, done, REAP, listen_wait(e, wait_ns));
    if (n < 0)
        emu_break(e, n);
    for (int i = 0; i < n; i++) {
        struct io *io = done[i]->user;

        io->at_disk = 0;
        e->n_at_disk--;
        io_delay(e, io);
    }
    if (n == 0) {
        silence_count(e);
    } else {
        e->silent_ns = 0;
        e->listened_ns = clock_ns();
    }
}

static void *emu_worker(void *arg)
{
    struct emu *e = arg;
    int         go_on, worked;

    omp_set_num_threads(1); // the kernels called from here: one core is one device
    for (;;) {
        delayed_finish(e);
        go_on = inbox_take(e);
        jobs_start(e);
        worked = set_work(e);
        if (!go_on && emu_idle(e))
            return NULL;
        disk_serve(e, worked ? 0 : delayed_wait(e));
    }
}

/* ---- the calls ---- */

static void emu_free(struct emu *e)
{
    for (int i = 0; i < SETS; i++)
        set_deallocate(e, &e->sets[i]);
    pthread_mutex_destroy(&e->mutex);
    free(e->path);
    free(e);
}

static int emu_close(struct csd *base)
{
    struct emu *e = (struct emu *)base;

    if (!e)
        return 0;
    if (e->started) {
        pthread_mutex_lock(&e->mutex);
        e->stop = 1;
        pthread_mutex_unlock(&e->mutex);
        disk_wake(e->disk);
        pthread_join(e->thread, NULL);
    }
    if (e->broken && e->n_at_disk > 0) { // its requests, and the sets that they point into, are still the disk's
        disk_abandon(e->disk);
        csd_keep(e);
        return 1;
    }
    disk_close(e->disk);
    emu_free(e);
    return 0;
}

static struct emu *emu_new(const struct csd_config *cfg)
{
    struct emu *e = calloc(1, sizeof *e);

    if (!e)
        return NULL;
    e->base.ops = &csd_emu;
    e->cfg = *cfg;
    e->cfg.buffers = NULL; // the caller's memory, needed by open alone
    e->path = strdup(cfg->path);
    e->cfg.path = e->path;
    e->fake = !cfg->disk_ops && strcmp(cfg->disk, disk_null.name) == 0;
    e->n_sets = cfg->naive ? 1 : SETS;
    pthread_mutex_init(&e->mutex, NULL);
    csd_list_init(&e->inbox);
    csd_list_init(&e->outbox);
    csd_list_init(&e->host_jobs);
    csd_list_init(&e->updates);
    for (int i = 0; i < HOST_IOS; i++) {
        e->host_io[i].next = e->free_io;
        e->free_io = &e->host_io[i];
    }
    if (e->path)
        return e;
    emu_close(&e->base);
    return NULL;
}

/* Refuse what does not fit; allocate the sets of the modes that keep them. */
static int arena_open(struct emu *e, struct err *err)
{
    const struct csd_config *c = &e->cfg;
    size_t                   need = csd_arena_bytes(c->update_params, c->moments, c->wire_dt, c->naive),
           set = need / (size_t)e->n_sets;

    if (need > c->mem)
        return err_misuse(
            err, "device %d: updates of %zu parameters need %zu bytes of its memory, --csd-mem is %zu", c->id,
            c->update_params, need, c->mem);
    for (int i = 0; !c->naive && set > 0 && i < e->n_sets; i++)
        if (set_allocate(e, &e->sets[i], set))
            return err_set(err, -ENOMEM, "device %d: no memory for %zu bytes of its arena", c->id, need);
    return 0;
}

/* The owner's buffers and the sets are what transfers will point into. */
static int buffers_list(const struct emu *e, const struct csd_config *cfg, struct disk_config *d,
                        struct err *err)
{
    struct iovec *buffers = calloc(cfg->n_buffers + SETS, sizeof *buffers);

    if (!buffers)
        return err_set(err, -ENOMEM, "device %d: out of memory", cfg->id);
    if (cfg->n_buffers > 0)
        memcpy(buffers, cfg->buffers, cfg->n_buffers * sizeof *buffers);
    d->buffers = buffers;
    d->n_buffers = cfg->n_buffers;
    for (int i = 0; i < SETS; i++)
        if (e->sets[i].mem)
            buffers[d->n_buffers++] = (struct iovec){e->sets[i].mem, e->sets[i].bytes};
    return 0;
}

static int worker_start(struct emu *e, struct err *err)
{
    char name[16];
    int  rc = -pthread_create(&e->thread, NULL, emu_worker, e);

    if (rc)
        return err_set(err, rc, "device %d: start its thread: %s", e->cfg.id, strerror(-rc));
    e->started = 1;
    snprintf(name, sizeof name, "csd%d", e->cfg.id);
    pthread_setname_np(e->thread, name);
    return 0;
}

static int emu_open(struct csd **out, const struct csd_config *cfg, char *notice, size_t notice_size,
                    struct err *err)
{
    struct emu        *e = emu_new(cfg);
    struct disk_config d = {.path = cfg->path,
                            .bytes = cfg->bytes,
                            .create = cfg->create,
                            .read_only = cfg->read_only,
                            .depth = DEPTH};
    int                rc;

    if (notice_size > 0)
        notice[0] = 0;
    if (!e)
        return err_set(err, -ENOMEM, "device %d: out of memory", cfg->id);
    rc = arena_open(e, err);
    if (rc == 0)
        rc = buffers_list(e, cfg, &d, err);
    if (rc == 0)
        rc = cfg->disk_ops ? cfg->disk_ops->open(&e->disk, &d, err)
                           : disk_open(&e->disk, cfg->disk, &d, notice, notice_size, err);
    if (rc == 0 && e->disk->align > EMU_ALIGN)
        rc = err_set(err, -EINVAL, "%s wants transfers aligned to %zu bytes, %d are given", e->path,
                     e->disk->align, EMU_ALIGN);
    if (rc == 0)
        rc = worker_start(e, err);
    free((void *)(uintptr_t)d.buffers);
    if (rc) {
        if (e->disk)
            disk_file_undo(&d);
        emu_close(&e->base);
        return rc;
    }
    *out = &e->base;
    return 0;
}

static void emu_submit(struct csd *base, struct csd_job *job)
{
    struct emu *e = (struct emu *)base;

    job->status = 0;
    job->why[0] = 0;
    job->meter = (struct link_meter){0};
    memset(job->start_ns, 0, sizeof job->start_ns);
    memset(job->end_ns, 0, sizeof job->end_ns);
    pthread_mutex_lock(&e->mutex);
    csd_list_push(&e->inbox, job);
    pthread_mutex_unlock(&e->mutex);
    disk_wake(e->disk);
}

static int emu_reap(struct csd *base, struct csd_job **done, int max)
{
    struct emu *e = (struct emu *)base;
    int         n;

    pthread_mutex_lock(&e->mutex);
    n = csd_list_take(&e->outbox, done, max);
    pthread_mutex_unlock(&e->mutex);
    return n;
}

static size_t emu_arena(const struct csd *base)
{
    return __atomic_load_n(&((const struct emu *)base)->arena_peak, __ATOMIC_RELAXED);
}

const struct csd_ops csd_emu = {.name = "emu",
                                .open = emu_open,
                                .submit = emu_submit,
                                .reap = emu_reap,
                                .arena = emu_arena,
                                .close = emu_close};
