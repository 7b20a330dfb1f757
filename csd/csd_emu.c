/* csd_emu.c: an emulated device: one worker thread with a disk of its own, memory limited to
 * csd-mem, and the update by the same kernels. The order of this file: jobs and failures,
 * transfers, host jobs, the worker and its silence, the calls. The stages of an update are
 * emu_update.c.
 *
 * The owner and the worker meet in two lists, `inbox` and `outbox`, under one mutex; everything
 * else after open is the worker's. A transfer is over when the disk is done with it and the
 * modelled link would be.
 *
 * A disk that can no longer be reaped, or that was silent for timeout_ns with requests in flight,
 * is broken: what is in flight fails, and so does every job after it. Requests that are still the
 * disk's are given up: they, the device and its memory stay for ever, since an answer may still
 * come. Only what the disk does counts as silence, not what a modelled link delays; and not more
 * than a slice of it at a time, so that a process that was stopped, or a clock that jumped, breaks
 * nothing. */
#include "csd/emu.h"

#include "csd/disk_file.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <omp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- jobs and failures ---- */

/* The first failure of a job is the one it reports. */
void emu_job_fail(const struct emu *e, struct csd_job *job, int rc, const char *fmt, ...)
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
        snprintf(job->why, sizeof job->why, "device %d (...%s): %s", e->cfg.id,
                 path + length - most, text);
    else
        snprintf(job->why, sizeof job->why, "device %d (%s): %s", e->cfg.id, path, text);
}

void emu_job_finish(struct emu *e, struct csd_job *job)
{
    job->end_ns[SPAN_JOB] = clock_ns();
    pthread_mutex_lock(&e->mutex);
    csd_list_push(&e->outbox, job);
    pthread_mutex_unlock(&e->mutex);
    csd_bell_ring(e->cfg.bell);
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

/* When a transfer that starts now is over, as the links go: what the SSD reads or writes takes its
 * own link, whoever asked; what comes from or goes to the host takes the host's as well. */
static uint64_t io_over(struct emu *e, const struct io *io, uint64_t now)
{
    uint64_t ssd = link_reserve(e->cfg.internal, io_dir(io), io->req.bytes, now);
    uint64_t host = io_link(e, io) == LINK_HOST
                        ? link_reserve(e->cfg.host, io_dir(io), io->req.bytes, now)
                        : now;

    return ssd > host ? ssd : host;
}

/* Start io, whose job, class and payload are set. A disk that refuses it is a transfer that failed.
 */
void emu_io_start(struct emu *e, struct io *io, enum disk_op op, void *buf, size_t bytes,
                  uint64_t off)
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
        snprintf(text, size, "%s of %zu bytes at offset %" PRIu64, verb[io->req.op], io->req.bytes,
                 io->req.off);
    return text;
}

/* Enter a transfer that is over into its job's accounts. */
void emu_io_account(struct emu *e, struct io *io)
{
    struct disk_req *r = &io->req;
    char             what[96];

    if (r->status)
        emu_job_fail(e, io->job, r->status, "%s: %s", io_describe(io, what, sizeof what),
                     strerror(-r->status));
    else if (r->op != DISK_FLUSH)
        csd_meter(&io->job->meter, io_link(e, io), io->cls, io_dir(io), io->payload, r->bytes);
}

/* ---- host jobs ---- */

static void host_start(struct emu *e, struct csd_job *job)
{
    struct io *io = e->free_io;

    job->start_ns[SPAN_JOB] = clock_ns();
    if (job->kind != CSD_FLUSH && !emu_in_range(e, job->off, job->bytes))
        emu_job_fail(e, job, -EINVAL,
                     "%zu bytes at offset %" PRIu64 " are outside its %" PRIu64 " bytes",
                     job->bytes, job->off, e->cfg.bytes);
    else if (job->kind == CSD_WRITE && e->cfg.read_only)
        emu_job_fail(e, job, -EROFS, "is open for reading only");
    if (job->status) {
        emu_job_finish(e, job);
        return;
    }
    e->free_io = io->next;
    io->job = job;
    io->cls = job->cls;
    io->payload = job->payload;
    emu_io_start(e, io,
                 job->kind == CSD_READ    ? DISK_READ
                 : job->kind == CSD_WRITE ? DISK_WRITE
                                          : DISK_FLUSH,
                 job->buf, job->bytes, job->off);
}

static void host_done(struct emu *e, struct io *io)
{
    emu_io_account(e, io);
    emu_job_finish(e, io->job);
    io->next = e->free_io;
    e->free_io = io;
}

/* ---- the worker ---- */

static void io_done(struct emu *e, struct io *io)
{
    if (io->set)
        emu_set_io_done(e, io);
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

    while (e->broken &&
           ((job = csd_list_pop(&e->host_jobs)) || (job = csd_list_pop(&e->updates)))) {
        emu_job_fail(e, job, e->broken, "the disk cannot be used any more: %s",
                     strerror(-e->broken));
        emu_job_finish(e, job);
    }
    while (e->host_jobs.first && e->free_io)
        host_start(e, csd_list_pop(&e->host_jobs));
    for (int i = 0; i < e->n_sets; i++)
        while (e->sets[i].stage == SET_FREE && (job = csd_list_pop(&e->updates)) != NULL)
            emu_update_start(e, &e->sets[i], job);
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
        emu_job_fail(e, s->job, rc, "the disk cannot be used any more: %s", strerror(-rc));
        emu_set_finish(e, s);
    }
}

static void io_give_up(struct emu *e, struct io *io)
{
    char what[96];

    if (io->at_disk)
        emu_job_fail(e, io->job, -ETIMEDOUT,
                     "%s has had no answer for %.3g s, nor has any of the %u requests in flight "
                     "(--io-timeout): they are given up",
                     io_describe(io, what, sizeof what), (double)e->cfg.timeout_ns * 1e-9,
                     e->n_at_disk);
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
    uint64_t now = clock_ns(), moved = disk_moved(e->disk),
             slice = e->cfg.timeout_ns / SILENCE_SLICES + 1, passed = now - e->listened_ns;

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
        worked = emu_set_work(e);
        if (!go_on && emu_idle(e))
            return NULL;
        disk_serve(e, worked ? 0 : delayed_wait(e));
    }
}

/* ---- the calls ---- */

static void emu_free(struct emu *e)
{
    for (int i = 0; i < SETS; i++)
        emu_set_deallocate(e, &e->sets[i]);
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
    if (e->broken &&
        e->n_at_disk > 0) { // its requests, and the sets that they point into, are still the disk's
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
    size_t need = csd_arena_bytes(c->update_params, c->moments, c->wire_dt, c->naive),
           set = need / (size_t)e->n_sets;

    if (need > c->mem)
        return err_misuse(err,
                          "device %d: updates of %zu parameters need %zu bytes of its memory, "
                          "--csd-mem is %zu",
                          c->id, c->update_params, need, c->mem);
    for (int i = 0; !c->naive && set > 0 && i < e->n_sets; i++)
        if (emu_set_allocate(e, &e->sets[i], set))
            return err_set(err, -ENOMEM, "device %d: no memory for %zu bytes of its arena", c->id,
                           need);
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

static int emu_open(struct csd **out, const struct csd_config *cfg, char *notice,
                    size_t notice_size, struct err *err)
{
    struct emu        *e = emu_new(cfg);
    struct disk_config d = {.path = cfg->path,
                            .bytes = cfg->bytes,
                            .create = cfg->create,
                            .read_only = cfg->read_only,
                            .keep = cfg->keep,
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
