/* worker.c: runs the worker's thread and the jobs of the host, and implements the calls of csd_ops.
 *
 * The owner and the worker share two lists, `inbox` and `outbox`, under one mutex. Everything else
 * is the worker's after open.
 *
 * A disk is broken if it can no longer be reaped, or was silent for timeout_ns with requests in
 * flight. Then everything in flight fails, and so does every later job; an update in the engine
 * fails when the engine is done with it. Requests that the disk still has are given up (csd_keep).
 * If an engine breaks, only updates fail: the disk still moves the host's bytes. */
#include "csd/devices/worker.h"

#include "csd/disk/disk_file.h"
#include "data/base/clock.h"

#include <omp.h>

/* Each of a worker's transfers is at the disk at most once, so there are never more. */
enum { DEPTH = 96 };
_Static_assert(HOST_IOS + WORKER_SETS * SET_IOS <= DEPTH, "the disk takes all that there can be");

/* ---- host jobs ---- */

static void host_finish(struct worker *w, struct csd_job *job)
{
    job->end_ns[SPAN_JOB] = clock_ns();
    csd_ahead_over(job, &w->finished); // an update that could not begin
    list_push(&w->finished, job);
}

static void host_start(struct worker *w, struct worker_io *io, struct csd_job *job)
{
    job->start_ns[SPAN_JOB] = clock_ns();
    csd_job_check(&w->cfg, w->base.ops->caps, job);
    if (job->status) {
        host_finish(w, job);
        return;
    }
    *io = (struct worker_io){
        .req = {.op = (enum disk_op)job->kind, .buf = job->buf, .bytes = job->bytes,
                .off = job->off},
        .job = job, .cls = job->cls, .payload = job->payload};
    worker_io_start(w, io);
}

static void host_io_over(struct worker *w, struct worker_io *io)
{
    worker_io_account(w, io);
    host_finish(w, io->job);
    io->job = NULL;
}

/* ---- the worker ---- */

/* Sorts submitted jobs into the queues, and hands finished jobs over. Returns whether the worker
 * goes on. */
static int owner_meet(struct worker *w)
{
    struct csd_job *job;
    int             rings = 0;

    thread_lock(&w->thread);
    while ((job = list_pop(&w->inbox)) != NULL)
        list_push(job->kind == CSD_UPDATE ? &w->updates_waiting : &w->host_waiting, job);
    for (; (job = list_pop(&w->finished)); rings = 1)
        list_push(&w->outbox, job);
    int go_on = !w->thread.stop;
    thread_unlock(&w->thread);
    if (rings)
        bell_ring(w->cfg.bell);
    return go_on;
}

static void jobs_start(struct worker *w)
{
    struct csd_job *job;

    while ((w->broken && (job = list_pop(&w->host_waiting))) ||
           ((w->broken || w->engine->broken) && (job = list_pop(&w->updates_waiting)))) {
        worker_job_broken(w, job);
        host_finish(w, job);
    }
    for (int i = 0; i < HOST_IOS && w->host_waiting.first; i++)
        while (!w->host_io[i].job && (job = list_pop(&w->host_waiting)) != NULL)
            host_start(w, &w->host_io[i], job);
    while (w->updates_waiting.first && worker_updates_running(w) < w->n_sets)
        worker_update_start(w, list_pop(&w->updates_waiting));
}

static int is_idle(const struct worker *w)
{
    for (int i = 0; i < HOST_IOS; i++)
        if (w->host_io[i].job)
            return 0;
    return !w->host_waiting.first && !w->updates_waiting.first && !w->finished.first &&
           worker_updates_running(w) == 0;
}

/* Fails everything in flight, because the disk cannot be used any more. */
static void worker_break(struct worker *w)
{
    list_init(&w->delayed, offsetof(struct worker_io, next));
    for (int i = 0; i < HOST_IOS; i++) {
        struct worker_io *io = &w->host_io[i];

        if (!io->job)
            continue;
        io->req.status = w->broken;
        host_io_over(w, io);
    }
    worker_updates_break(w);
}

/* Runs once around. Returns whether the worker goes on. */
static int worker_go(struct worker *w)
{
    struct worker_io *io;

    while ((io = worker_io_over(w)) != NULL) {
        if (io->set)
            worker_update_io_over(w, io);
        else
            host_io_over(w, io);
    }
    int go_on = owner_meet(w), broken = w->broken;
    jobs_start(w);
    int worked = worker_update_work(w);
    if (!go_on && is_idle(w))
        return 0;
    worker_io_serve(w, worked || w->finished.first ? 0 : worker_io_wait(w));
    if (w->broken && !broken)
        worker_break(w);
    return 1;
}

/* The worker's thread. It waits for its disk only, without the lock, and returns when the thread
 * must end. */
static int worker_work(void *arg)
{
    struct worker *w = arg;

    thread_unlock(&w->thread);
    omp_set_num_threads(1); // one core is one device, also for the kernels that it calls
    while (worker_go(w))
        ;
    thread_lock(&w->thread);
    return 0;
}

/* ---- the calls ---- */

size_t worker_memory(const struct csd_config *cfg)
{
    return (cfg->handler == CSD_NAIVE ? 1 : WORKER_SETS) *
           update_area_bytes(cfg->update_params, cfg->moments, cfg->wire_dt);
}

int worker_close(struct csd *base)
{
    struct worker *w = (struct worker *)base;

    if (!w)
        return 0;
    if (w->thread.running) {
        thread_ask_stop(&w->thread);
        disk_wake(w->disk);
        thread_stop(&w->thread);
    }
    if (w->broken && w->n_at_disk > 0) { // the disk may still use what these point into
        disk_abandon(w->disk);
        w->engine->broken = w->broken; // its memory must stay, too
        w->engine->ops->close(w->engine);
        csd_keep(w);
        return 1;
    }
    disk_close(w->disk);
    worker_updates_release(w);
    if (w->engine)
        w->engine->ops->close(w->engine);
    thread_release(&w->thread);
    free(w);
    return 0;
}

static void engine_wakes(void *worker) { disk_wake(((struct worker *)worker)->disk); }

/* Opens the disk. The sets' memory is registered with it if the engine allows that. */
static int worker_disk_open(struct worker *w, const struct csd_config *cfg, char *notice,
                            size_t notice_size, struct err *err)
{
    struct iovec own[WORKER_SETS];
    unsigned     n_own = 0;

    for (int i = 0; i < WORKER_SETS && !w->engine->ops->on_card; i++)
        if (w->sets[i].mem.base)
            own[n_own++] = (struct iovec){w->sets[i].mem.base, w->sets[i].mem.bytes};
    char why[512] = ""; // filled if there is a fall-back
    int  rc = csd_disk_open(&w->disk, cfg, own, n_own, DEPTH, why, sizeof why, err);
    if (!rc && *why)
        snprintf(notice, notice_size, "%s", why);
    if (rc || !w->engine->ops->on_card || w->disk->ops != &disk_sync)
        return rc;
    disk_file_undo(&(struct disk_config){.path = cfg->path, .create = cfg->create});
    return err_set(err, -EINVAL, "device %d: bytes go between its drive and its card with O_DIRECT "
                   "through io_uring alone%s%s", cfg->id,
                   cfg->disk == &disk_sync ? " (--disk uring)" : ", which cannot be used here: ",
                   cfg->disk == &disk_sync ? "" : why);
}

int worker_open(struct csd **out, const struct csd_ops *ops, const struct engine_ops *engine,
                const struct csd_config *cfg, char *notice, size_t notice_size, struct err *err)
{
    struct worker *w = calloc(1, sizeof *w);

    if (!w)
        return err_set(err, -ENOMEM, "device %d: out of memory", cfg->id);
    struct list *jobs[] = {&w->inbox, &w->outbox, &w->host_waiting, &w->updates_waiting,
                           &w->finished};

    w->base.ops = ops;
    w->cfg = *cfg;
    w->cfg.buffers = NULL; // the caller's, like fpga and xclbin: only open needs them
    w->cfg.fpga = w->cfg.xclbin = NULL;
    thread_init(&w->thread, worker_work, w);
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        list_init(jobs[i], offsetof(struct csd_job, next));
    list_init(&w->delayed, offsetof(struct worker_io, next));
    int rc = csd_memory_check(cfg, worker_memory(cfg), err);
    rc = rc ? rc : engine->open(&w->engine, cfg, engine_wakes, w, err);
    rc = rc ? rc : worker_updates_init(w, err);
    rc = rc ? rc : worker_disk_open(w, cfg, notice, notice_size, err);
    if (!rc) {
        char name[16];

        snprintf(name, sizeof name, "csd%d", cfg->id);
        rc = thread_start(&w->thread, name, err);
        if (rc)
            disk_file_undo(&(struct disk_config){.path = cfg->path, .create = cfg->create});
    }
    if (rc)
        worker_close(&w->base);
    else
        *out = &w->base;
    return rc;
}

void worker_submit(struct csd *base, struct csd_job *job)
{
    struct worker *w = (struct worker *)base;

    csd_job_begin(job);
    thread_lock(&w->thread);
    list_push(&w->inbox, job);
    thread_unlock(&w->thread);
    disk_wake(w->disk);
}

int worker_reap(struct csd *base, struct csd_job **done, int max)
{
    struct worker *w = (struct worker *)base;

    thread_lock(&w->thread);
    int n = list_take(&w->outbox, done, max);
    thread_unlock(&w->thread);
    return n;
}
