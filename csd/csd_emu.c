/* csd_emu.c: an emulated device: one worker thread with a disk of its own, memory limited to
 * csd-mem, and the update by the same kernels. Here are its jobs, its worker and the calls; its
 * transfers are emu_io.c, the stages of its updates emu_update.c.
 *
 * The owner and the worker meet in two lists, `inbox` and `outbox`, under one mutex; everything
 * else after open is the worker's.
 *
 * A disk that can no longer be reaped, or that was silent for timeout_ns with requests in flight,
 * is broken: what is in flight fails, and so does every job after it. Requests that are still the
 * disk's are given up (csd_keep). */
#include "csd/emu.h"

#include "csd/disk_file.h"
#include "data/base/clock.h"

#include <omp.h>

enum { DEPTH = 96 };

/* ---- host jobs ---- */

static void host_finish(struct emu *e, struct csd_job *job)
{
    job->end_ns[SPAN_JOB] = clock_ns();
    list_push(&e->finished, job);
}

static void host_start(struct emu *e, struct emu_io *io, struct csd_job *job)
{
    job->start_ns[SPAN_JOB] = clock_ns();
    csd_job_check(&e->cfg, job);
    if (job->status) {
        host_finish(e, job);
        return;
    }
    *io = (struct emu_io){
        .req = {.op = (enum disk_op)job->kind, .buf = job->buf, .bytes = job->bytes,
                .off = job->off},
        .job = job, .cls = job->cls, .payload = job->payload};
    emu_io_start(e, io);
}

static void host_io_over(struct emu *e, struct emu_io *io)
{
    emu_io_account(e, io);
    host_finish(e, io->job);
    io->job = NULL;
}

/* ---- the worker ---- */

/* Sort what the owner submitted into the queues, and hand over what is finished. Whether the worker
 * is to go on. */
static int owner_meet(struct emu *e)
{
    struct csd_job *job;
    int             rings = 0;

    pthread_mutex_lock(&e->mutex);
    while ((job = list_pop(&e->inbox)) != NULL)
        list_push(job->kind == CSD_UPDATE ? &e->updates_waiting : &e->host_waiting, job);
    for (; (job = list_pop(&e->finished)); rings = 1)
        list_push(&e->outbox, job);
    int go_on = !e->stop;
    pthread_mutex_unlock(&e->mutex);
    if (rings)
        csd_bell_ring(e->cfg.bell);
    return go_on;
}

static void jobs_start(struct emu *e)
{
    struct csd_job *job;
    int             broken = e->broken;

    while (broken &&
           ((job = list_pop(&e->host_waiting)) || (job = list_pop(&e->updates_waiting)))) {
        csd_job_fail(&e->cfg, job, broken, "the disk cannot be used any more: %s",
                     strerror(-broken));
        host_finish(e, job);
    }
    for (int i = 0; i < HOST_IOS && e->host_waiting.first; i++)
        while (!e->host_io[i].job && (job = list_pop(&e->host_waiting)) != NULL)
            host_start(e, &e->host_io[i], job);
    while (e->updates_waiting.first && emu_updates_running(e) < e->n_sets)
        emu_update_start(e, list_pop(&e->updates_waiting));
}

static int is_idle(const struct emu *e)
{
    for (int i = 0; i < HOST_IOS; i++)
        if (e->host_io[i].job)
            return 0;
    return !e->host_waiting.first && !e->updates_waiting.first && !e->finished.first &&
           emu_updates_running(e) == 0;
}

/* The disk cannot be used any more: everything in flight fails, and so will everything to come. */
static void emu_break(struct emu *e, int rc)
{
    list_init(&e->delayed, offsetof(struct emu_io, next));
    for (int i = 0; i < HOST_IOS; i++) {
        struct emu_io *io = &e->host_io[i];

        if (!io->job)
            continue;
        io->req.status = rc;
        host_io_over(e, io);
    }
    emu_updates_break(e, rc);
}

static void *emu_worker(void *arg)
{
    struct emu    *e = arg;
    struct emu_io *io;

    omp_set_num_threads(1); // the kernels called from here: one core is one device
    for (;;) {
        while ((io = emu_io_over(e)) != NULL) {
            if (io->set)
                emu_update_io_over(e, io);
            else
                host_io_over(e, io);
        }
        int go_on = owner_meet(e);
        jobs_start(e);
        int worked = emu_update_work(e);
        if (!go_on && is_idle(e))
            return NULL;
        int rc = emu_io_serve(e, worked || e->finished.first ? 0 : emu_io_wait(e));
        if (rc)
            emu_break(e, rc);
    }
}

/* ---- the calls ---- */

static size_t emu_memory(const struct csd_config *cfg)
{
    return (cfg->naive ? 1 : EMU_SETS) *
           update_area_bytes(cfg->update_params, cfg->moments, cfg->wire_dt);
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
    if (e->broken && e->n_at_disk > 0) { // what these point into is still the disk's
        disk_abandon(e->disk);
        csd_keep(e);
        return 1;
    }
    disk_close(e->disk);
    emu_updates_release(e);
    pthread_mutex_destroy(&e->mutex);
    free(e);
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
    struct emu  *e = calloc(1, sizeof *e);
    struct iovec own[EMU_SETS];
    unsigned     n_own = 0;

    if (!e)
        return err_set(err, -ENOMEM, "device %d: out of memory", cfg->id);
    struct list *jobs[] = {&e->inbox, &e->outbox, &e->host_waiting, &e->updates_waiting,
                           &e->finished};

    e->base.ops = &csd_emu;
    e->cfg = *cfg;
    e->cfg.buffers = NULL; // the caller's memory, needed by open alone
    pthread_mutex_init(&e->mutex, NULL);
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        list_init(jobs[i], offsetof(struct csd_job, next));
    list_init(&e->delayed, offsetof(struct emu_io, next));
    int rc = csd_memory_check(cfg, emu_memory(cfg), err);
    if (rc == 0)
        rc = emu_updates_init(e, err);
    for (int i = 0; rc == 0 && i < EMU_SETS; i++)
        if (e->sets[i].mem.base)
            own[n_own++] = (struct iovec){e->sets[i].mem.base, e->sets[i].mem.bytes};
    if (rc == 0)
        rc = csd_disk_open(&e->disk, cfg, own, n_own, DEPTH, notice, notice_size, err);
    if (rc == 0) {
        rc = worker_start(e, err);
        if (rc)
            disk_file_undo(&(struct disk_config){.path = cfg->path, .create = cfg->create});
    }
    if (rc)
        emu_close(&e->base);
    else
        *out = &e->base;
    return rc;
}

static void emu_submit(struct csd *base, struct csd_job *job)
{
    struct emu *e = (struct emu *)base;

    csd_job_begin(job);
    pthread_mutex_lock(&e->mutex);
    list_push(&e->inbox, job);
    pthread_mutex_unlock(&e->mutex);
    disk_wake(e->disk);
}

static int emu_reap(struct csd *base, struct csd_job **done, int max)
{
    struct emu *e = (struct emu *)base;

    pthread_mutex_lock(&e->mutex);
    int n = list_take(&e->outbox, done, max);
    pthread_mutex_unlock(&e->mutex);
    return n;
}

const struct csd_ops csd_emu = {
    .name = "emu", .about = "emulated: its own worker, ring and memory",
    .memory = emu_memory, .open = emu_open, .submit = emu_submit, .reap = emu_reap,
    .close = emu_close,
};
