/* scheduler.c: runs the one thread that submits tasks to devices and reaps them. It checks what
 * they did, hands it to their part, and keeps the first error. */
#include "offload/devices/scheduler.h"

#include "data/base/clock.h"
#include "data/base/crc32c.h"
#include "offload/devices/areas.h"

void scheduler_lock(struct scheduler *s) { thread_lock(&s->thread); }

int scheduler_unlock(struct scheduler *s, int ring, struct err *err)
{
    int rc = s->failed;

    if (rc && err)
        *err = s->why;
    thread_unlock(&s->thread);
    if (ring)
        bell_ring(&s->dev.bell);
    return rc;
}

void scheduler_fail(struct scheduler *s, int rc, const struct err *why)
{
    if (!s->failed) {
        s->failed = rc;
        s->why = *why;
    }
    thread_changed(&s->thread);
}

void scheduler_waited_in(struct scheduler *s, struct scheduler_wait *w, uint64_t step)
{
    if (w->since)
        meter_span(s->meter, step, w->phase, w->block, -1, w->since, clock_ns(), 0);
    w->since = 0;
}

void scheduler_waited(struct scheduler *s, struct scheduler_wait *w)
{
    scheduler_waited_in(s, w, s->step);
}

int scheduler_wait(struct scheduler *s, struct scheduler_wait *w, enum runlog_phase phase)
{
    if (s->failed)
        return 0;
    if (w->phase != phase)
        scheduler_waited(s, w);
    w->phase = phase;
    if (!w->since)
        w->since = clock_ns();
    thread_wait(&s->thread);
    return 1;
}

void scheduler_network(struct scheduler *s, enum runlog_phase phase, size_t block,
                       enum link_class cls, uint64_t sent, uint64_t came, uint64_t since_ns)
{
    int               network = (int)(s->cfg.n_devices + s->cfg.n_act_devices);
    struct link_meter m = { 0 };

    link_meter_count(&m, LINK_NETWORK, cls, LINK_WRITE, sent, sent);
    link_meter_count(&m, LINK_NETWORK, cls, LINK_READ, came, came);
    meter_traffic(s->meter, s->step, phase, network, &m);
    meter_span(s->meter, s->step, phase, (int)block, network, since_ns, clock_ns(), sent + came);
}

int scheduler_files(const struct scheduler *s)
{
    return (int)(s->cfg.n_devices + s->cfg.n_act_devices) + 1;
}

void scheduler_submit(struct scheduler *s, size_t device, struct task *t)
{
    s->dev.device[device].tasks++;
    s->dev.device[device].csd->ops->submit(s->dev.device[device].csd, &t->job);
}

/* Says which task failed, and what it belongs to. */
static int task_failed(const struct scheduler *s, const struct task *t, struct err *err)
{
    unsigned long long step = t->step + 1;
    const char        *why = t->job.why;
    int                rc = t->job.status;

    if (t->kind->of == TASK_OF_DEVICE)
        return err_set(err, rc, "%s", why);
    if (t->kind->of == TASK_OF_STEP)
        return err_set(err, rc, "%s (activations, step %llu)", why, step);
    const struct store_sub *u = &s->dev.store.subs[t->sub];
    char                    names[AREA_TENSORS];
    return err_set(err, rc, "%s (block %zu, step %llu)%s", why, u->block, step,
                   area_tensors(names, &s->cfg, u->block, u->first, u->n));
}

/* Says that a task read other bytes than were written. Activations belong to one step, so nothing
 * of the run is damaged. */
static int task_damaged(const struct scheduler *s, const struct task *t, int device,
                        struct err *err)
{
    int                of_step = t->kind->of == TASK_OF_STEP;
    const struct store_sub *u = of_step ? NULL : &s->dev.store.subs[t->sub];
    unsigned long long of = of_step ? t->step + 1 : u->block;
    char names[AREA_TENSORS] = "";

    if (u)
        area_tensors(names, &s->cfg, u->block, u->first, u->n);
    return err_set(err, of_step ? -EIO : -EBADMSG,
                   "device %d (%s): the %s of %s %llu%s, %zu bytes at offset %llu, %s damaged "
                   "(checksum differs)%s", device, s->dev.device[device].path, t->kind->what,
                   of_step ? "step" : "block", of, names, t->job.bytes,
                   (unsigned long long)t->job.off, t->kind->is,
                   of_step ? "; the states are not: go on with --resume" : "");
}

/* Records what a job moved and how long it took, and checks it. Called without the lock. */
static int task_check(struct scheduler *s, const struct task *t, int device, struct err *err)
{
    static const enum runlog_phase part_phase[CSD_SPANS] = {
        [SPAN_READ]    = PHASE_UPDATE_READ,
        [SPAN_COMPUTE] = PHASE_UPDATE_COMPUTE,
        [SPAN_WRITE]   = PHASE_UPDATE_WRITE,
    };
    const struct csd_job *j = &t->job;
    int block = t->kind->of == TASK_OF_SUBGROUP ? (int)s->dev.store.subs[t->sub].block : -1;
    int parts = j->kind == CSD_UPDATE && t->phase != PHASE_REDO ? CSD_SPANS : 0;

    if (j->status)
        return task_failed(s, t, err);
    if (t->kind->of == TASK_OF_DEVICE)
        return 0;
    if (j->kind == CSD_AHEAD) {
        if (t->phase != PHASE_REDO)
            meter_span(s->meter, t->step, PHASE_UPDATE_PARAMS, block, device,
                       j->start_ns[SPAN_WRITE], j->end_ns[SPAN_WRITE], 0);
        return 0;
    }
    meter_traffic(s->meter, t->step, t->phase, device, &j->meter);
    meter_span(s->meter, t->step, t->phase, block, device, j->start_ns[SPAN_JOB],
               j->end_ns[SPAN_JOB], j->payload);
    for (int p = SPAN_READ; p < parts; p++)
        meter_add(s->meter,
                  &(struct runlog_span){ .step = t->step, .phase = part_phase[p], .block = block,
                                         .device = device, .start_ns = j->start_ns[p],
                                         .end_ns = j->end_ns[p], .busy_ns = j->busy_ns[p] });
    if (t->kind->what && !devices_fake(&s->cfg) &&
        crc32c(0, j->buf, j->bytes) != (uint32_t)j->tag)
        return task_damaged(s, t, device, err);
    return 0;
}

/* Reaps what all devices have done. Returns 1 if there was anything, 0, or -errno with a sentence.
 * Takes the lock only for done(). */
static int reap(struct scheduler *s, struct err *err)
{
    enum { MAX = 64 };
    struct csd_job *done[MAX];
    int             progress = 0;

    for (size_t d = 0; d < s->dev.n + s->dev.n_acts; d++) {
        int n = s->dev.device[d].csd->ops->reap(s->dev.device[d].csd, done, MAX);

        for (int i = 0; i < n; i++) {
            int rc = task_check(s, (struct task *)done[i], (int)d, err);

            if (rc)
                return rc;
        }
        if (n == 0)
            continue;
        thread_lock(&s->thread);
        for (int i = 0; i < n; i++) {
            struct task *t = (struct task *)done[i];

            s->dev.device[d].tasks -= t->job.kind != CSD_AHEAD; // which is no task of its own
            t->kind->done(t->part, t);
        }
        thread_changed(&s->thread);
        thread_unlock(&s->thread);
        progress = 1;
    }
    return progress;
}

/* ---- the thread ---- */

/* Devices ring a bell when they have done something. Transfers from other ranks ring none, so they
 * are polled every LOOK_NS. */
enum { LOOK_NS = 50000, SLEEP_NS = 1000000000 };

static int work(void *scheduler)
{
    struct scheduler *s = scheduler;
    struct err        err = { 0 };

    if (s->thread.stop || s->failed)
        return 0;
    thread_unlock(&s->thread);
    int reaped = reap(s, &err), moved = reaped;
    thread_lock(&s->thread);
    if (reaped >= 0)
        moved = s->advance(s->ctx, &err);
    if (moved < 0)
        scheduler_fail(s, moved, &err);
    else if (moved)
        thread_changed(&s->thread);
    if (!reaped && !moved) {
        uint64_t rest = s->rest_ns && s->rest_ns < SLEEP_NS ? s->rest_ns : SLEEP_NS;
        uint64_t most = s->polls(s->ctx) ? LOOK_NS : rest;

        thread_unlock(&s->thread);
        s->rings = bell_wait(&s->dev.bell, s->rings, most);
        thread_lock(&s->thread);
    }
    return 1;
}

void scheduler_init(struct scheduler *s) { thread_init(&s->thread, work, s); }

void scheduler_release(struct scheduler *s) { thread_release(&s->thread); }

int scheduler_start(struct scheduler *s, struct err *err)
{
    return thread_start(&s->thread, "scheduler", err);
}

void scheduler_stop(struct scheduler *s)
{
    if (!s->thread.running)
        return;
    thread_ask_stop(&s->thread);
    bell_ring(&s->dev.bell);
    thread_stop(&s->thread);
}
