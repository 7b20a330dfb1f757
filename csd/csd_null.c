/* csd_null.c: a device that answers at once and stores nothing; it meters what a real one would
 * have moved.
 */
#include "csd/csd.h"
#include "csd/grad_wire.h"
#include "csd/updater.h"
#include "data/base/clock.h"

#include <errno.h>
#include <stdlib.h>

struct null {
    struct csd       base;
    struct csd_bell *bell;
    int              moments;
    enum dtype       wire_dt;
    enum link_kind   link; // of updates
    struct csd_list  done;
};

static int null_open(struct csd **out, const struct csd_config *cfg, char *notice,
                     size_t notice_size, struct err *err)
{
    struct null *c = calloc(1, sizeof *c);

    if (!c)
        return err_set(err, -ENOMEM, "no memory for device %d", cfg->id);
    if (notice_size > 0)
        notice[0] = 0;
    *c = (struct null){.base = {&csd_null},
                       .bell = cfg->bell,
                       .moments = cfg->moments,
                       .wire_dt = cfg->wire_dt,
                       .link = cfg->update_on_host ? LINK_HOST : LINK_INTERNAL};
    csd_list_init(&c->done);
    *out = &c->base;
    return 0;
}

static void update_meter(const struct null *c, struct csd_job *job)
{
    const struct csd_update *u = &job->update;
    size_t                   states = 4 * (1 + (size_t)c->moments), wire = dtype_bytes(c->wire_dt);
    int                      dense = u->grad_form == CSD_GRAD_DENSE;

    csd_meter(&job->meter, c->link, CLASS_STATES, LINK_READ, states * u->n, states * u->n_pad);
    csd_meter(&job->meter, c->link, CLASS_GRADIENT, LINK_READ, dense ? 4 * u->n : 8 * u->pairs,
              dense ? 4 * u->n_pad : grad_wire_bytes(u->pairs));
    csd_meter(&job->meter, c->link, CLASS_STATES, LINK_WRITE, states * u->n, states * u->n_pad);
    csd_meter(&job->meter, c->link, CLASS_WIRE, LINK_WRITE, wire * u->n, wire * u->n_pad);
}

static void null_submit(struct csd *base, struct csd_job *job)
{
    struct null *c = (struct null *)base;
    uint64_t     now = clock_ns();

    job->status = 0;
    job->why[0] = 0;
    job->meter = (struct link_meter){0};
    for (int i = 0; i < CSD_SPANS; i++)
        job->start_ns[i] = job->end_ns[i] = now;
    if (job->kind == CSD_UPDATE)
        update_meter(c, job);
    else if (job->kind != CSD_FLUSH)
        csd_meter(&job->meter, LINK_HOST, job->cls, job->kind == CSD_READ ? LINK_READ : LINK_WRITE,
                  job->payload, job->bytes);
    csd_list_push(&c->done, job);
    csd_bell_ring(c->bell);
}

static int null_reap(struct csd *base, struct csd_job **done, int max)
{
    return csd_list_take(&((struct null *)base)->done, done, max);
}

static size_t null_arena(const struct csd *c)
{
    (void)c;
    return 0;
}

static int null_close(struct csd *c)
{
    free(c);
    return 0;
}

const struct csd_ops csd_null = {.name = "null",
                                 .flags = CSD_FAKE,
                                 .open = null_open,
                                 .submit = null_submit,
                                 .reap = null_reap,
                                 .arena = null_arena,
                                 .close = null_close};
