/* hub.c: the lock, the first error, and tasks from their submission to their part. */
#include "offload/devices/hub.h"

#include "data/base/clock.h"
#include "data/base/crc32c.h"

void hub_enter(struct hub *h) { thread_lock(&h->scheduler); }

int hub_leave(struct hub *h, int ring, struct err *err)
{
    int rc = h->failed;

    if (rc && err)
        *err = h->why;
    thread_unlock(&h->scheduler);
    if (ring)
        bell_ring(&h->dev.bell);
    return rc;
}

void hub_fail(struct hub *h, int rc, const struct err *why)
{
    if (!h->failed) {
        h->failed = rc;
        h->why = *why;
    }
    thread_changed(&h->scheduler);
}

void hub_waited_in(struct hub *h, struct hub_wait *w, uint64_t step)
{
    if (w->since)
        meter_span(h->meter, step, w->phase, w->block, -1, w->since, clock_ns(), 0);
    w->since = 0;
}

void hub_waited(struct hub *h, struct hub_wait *w) { hub_waited_in(h, w, h->step); }

int hub_wait(struct hub *h, struct hub_wait *w, enum runlog_phase phase)
{
    if (h->failed)
        return 0;
    if (w->phase != phase)
        hub_waited(h, w);
    w->phase = phase;
    if (!w->since)
        w->since = clock_ns();
    thread_wait(&h->scheduler);
    return 1;
}

void hub_moved(struct hub *h, enum runlog_phase phase, size_t block, enum link_class cls,
               uint64_t sent, uint64_t came, uint64_t since_ns)
{
    int               network = (int)(h->cfg.n_devices + h->cfg.n_act_devices);
    struct link_meter m = { 0 };

    link_meter_count(&m, LINK_NETWORK, cls, LINK_WRITE, sent, sent);
    link_meter_count(&m, LINK_NETWORK, cls, LINK_READ, came, came);
    meter_traffic(h->meter, h->step, phase, network, &m);
    meter_span(h->meter, h->step, phase, (int)block, network, since_ns, clock_ns(), sent + came);
}

void hub_submit(struct hub *h, size_t device, struct task *t)
{
    h->dev.device[device].csd->ops->submit(h->dev.device[device].csd, &t->job);
}

/* What failed, and what it belongs to. */
static int task_failed(const struct hub *h, const struct task *t, struct err *err)
{
    unsigned long long step = t->step + 1;
    const char        *why = t->job.why;
    int                rc = t->job.status;

    if (t->kind->of == TASK_OF_DEVICE)
        return err_set(err, rc, "%s", why);
    if (t->kind->of == TASK_OF_STEP)
        return err_set(err, rc, "%s (activations, step %llu)", why, step);
    return err_set(err, rc, "%s (block %zu, step %llu)", why, h->dev.store.subs[t->sub].block,
                   step);
}

/* What was read is not what was written. Activations are of one step: nothing of the run is
 * damaged. */
static int task_damaged(const struct hub *h, const struct task *t, int device, struct err *err)
{
    int                of_step = t->kind->of == TASK_OF_STEP;
    unsigned long long of = of_step ? t->step + 1 : h->dev.store.subs[t->sub].block;

    return err_set(err, of_step ? -EIO : -EBADMSG,
                   "device %d (%s): the %s of %s %llu at offset %llu %s damaged (checksum "
                   "differs)%s", device, h->dev.device[device].path, t->kind->what,
                   of_step ? "step" : "block", of, (unsigned long long)t->job.off, t->kind->is,
                   of_step ? "; the states are not: go on with --resume" : "");
}

/* What a job moved and how long it took, and whether it failed; without the lock. */
static int task_check(struct hub *h, const struct task *t, int device, struct err *err)
{
    static const enum runlog_phase part_phase[CSD_SPANS] = {
        [SPAN_READ]    = PHASE_UPDATE_READ,
        [SPAN_COMPUTE] = PHASE_UPDATE_COMPUTE,
        [SPAN_WRITE]   = PHASE_UPDATE_WRITE,
    };
    const struct csd_job *j = &t->job;
    int block = t->kind->of == TASK_OF_SUBGROUP ? (int)h->dev.store.subs[t->sub].block : -1;
    int parts = j->kind == CSD_UPDATE && t->phase != PHASE_REDO ? CSD_SPANS : 0;

    if (j->status)
        return task_failed(h, t, err);
    if (t->kind->of == TASK_OF_DEVICE)
        return 0;
    if (j->kind == CSD_AHEAD) {
        if (t->phase != PHASE_REDO)
            meter_span(h->meter, t->step, PHASE_UPDATE_PARAMS, block, device,
                       j->start_ns[SPAN_WRITE], j->end_ns[SPAN_WRITE], 0);
        return 0;
    }
    meter_traffic(h->meter, t->step, t->phase, device, &j->meter);
    meter_span(h->meter, t->step, t->phase, block, device, j->start_ns[SPAN_JOB],
               j->end_ns[SPAN_JOB], j->payload);
    for (int p = SPAN_READ; p < parts; p++)
        meter_add(h->meter,
                  &(struct runlog_span){ .step = t->step, .phase = part_phase[p], .block = block,
                                         .device = device, .start_ns = j->start_ns[p],
                                         .end_ns = j->end_ns[p], .busy_ns = j->busy_ns[p] });
    if (t->kind->what && !devices_fake(&h->cfg) &&
        crc32c(0, j->buf, j->bytes) != (uint32_t)j->tag)
        return task_damaged(h, t, device, err);
    return 0;
}

int hub_reap(struct hub *h, struct err *err)
{
    enum { MAX = 64 };
    struct csd_job *done[MAX];
    int             progress = 0;

    for (size_t d = 0; d < h->dev.n + h->dev.n_acts; d++) {
        int n = h->dev.device[d].csd->ops->reap(h->dev.device[d].csd, done, MAX);

        for (int i = 0; i < n; i++) {
            int rc = task_check(h, (struct task *)done[i], (int)d, err);

            if (rc)
                return rc;
        }
        if (n == 0)
            continue;
        thread_lock(&h->scheduler);
        for (int i = 0; i < n; i++) {
            struct task *t = (struct task *)done[i];

            t->kind->done(t->part, t);
        }
        thread_changed(&h->scheduler);
        thread_unlock(&h->scheduler);
        progress = 1;
    }
    return progress;
}
