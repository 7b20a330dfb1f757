/* csd_null.c: answers every job at once and stores nothing, but meters what a real device would
 * have moved. Its layout is that of a device with a worker, and it supports what the CPU does.
 * Everything runs in the owner's thread. */
#include "csd/devices/worker.h"
#include "data/base/clock.h"
#include "data/base/list.h"

struct null {
    struct csd        base;
    struct csd_config cfg;
    struct list       done;
};

static int null_open(struct csd **out, const struct csd_config *cfg, char *notice,
                     size_t notice_size, struct err *err)
{
    struct null *c = calloc(1, sizeof *c);

    if (!c)
        return err_set(err, -ENOMEM, "no memory for device %d", cfg->id);
    (void)notice, (void)notice_size;
    *c = (struct null){.base = {&csd_null}, .cfg = *cfg};
    list_init(&c->done, offsetof(struct csd_job, next));
    *out = &c->base;
    return 0;
}

static void update_meter(const struct null *c, struct csd_job *job)
{
    const struct csd_update *u = &job->update;
    enum link_kind     link = c->cfg.update_link;
    size_t states = 4 * (1 + (size_t)c->cfg.moments), wire = dtype_bytes(c->cfg.wire_dt);
    int                dense = u->grad_form == CSD_GRAD_DENSE;
    struct link_meter *m = &job->meter;
    size_t             n = u->n, n_pad = u->n_pad;

    link_meter_count(m, link, CLASS_STATES, LINK_READ, states * n, states * n_pad);
    link_meter_count(m, link, CLASS_GRADIENT, LINK_READ, dense ? 4 * n : 8 * u->pairs,
                     dense ? 4 * n_pad : grad_wire_bytes(u->pairs));
    link_meter_count(m, link, CLASS_STATES, LINK_WRITE, states * n, states * n_pad);
    link_meter_count(m, link, CLASS_WIRE, LINK_WRITE, wire * n, wire * n_pad);
}

static void null_submit(struct csd *base, struct csd_job *job)
{
    struct null *c = (struct null *)base;
    uint64_t     now = clock_ns();

    csd_job_begin(job);
    for (int i = 0; i < CSD_SPANS; i++)
        job->start_ns[i] = job->end_ns[i] = now;
    if (job->kind == CSD_UPDATE)
        update_meter(c, job);
    else if (job->kind != CSD_FLUSH)
        link_meter_count(&job->meter, LINK_HOST, job->cls,
                         job->kind == CSD_READ ? LINK_READ : LINK_WRITE, job->payload, job->bytes);
    csd_ahead_over(job, &c->done);
    list_push(&c->done, job);
    bell_ring(c->cfg.bell);
}

static int null_reap(struct csd *base, struct csd_job **done, int max)
{
    return list_take(&((struct null *)base)->done, done, max);
}

static int null_close(struct csd *c)
{
    free(c);
    return 0;
}

const struct csd_ops csd_null = {
    .name = "null", .about = "answers at once: stores nothing and trains nothing",
    .flags = CSD_FAKE, .caps = &engine_cpu_caps, .memory = worker_memory, .open = null_open,
    .submit = null_submit, .reap = null_reap, .close = null_close,
};
