/* master_reader.c: finds the subgroup that holds a parameter, reads its states, checks them, hands
 * out the masters at their beginning. */
#include "offload/master_reader.h"

#include "data/base/crc32c.h"

int master_reader_open(struct master_reader *m, struct devices *dev, const struct journal *from,
                       struct err *err)
{
    size_t most = dev->store.max_pad, residual = from->residuals ? store_residual_bytes(most) : 0;

    *m = (struct master_reader){ .dev = dev, .from = from, .held = SIZE_MAX };
    m->buf = devices_buffer(dev, store_state_bytes(&dev->store, most) + residual);
    return m->buf ? 0 : err_set(err, -ENOMEM,
                                "out of memory for the states of a subgroup of %zu parameters",
                                most);
}

void master_reader_close(struct master_reader *m)
{
    if (m->dev)
        devices_buffer_end(m->dev, m->buf);
    *m = (struct master_reader){ 0 };
}

/* What `job` says to read of a subgroup. */
static int area_read(struct master_reader *m, const struct store_sub *u, struct csd_job *job,
                     uint32_t crc, struct err *err)
{
    job->kind = CSD_READ;
    job->payload = job->bytes;
    int rc = devices_run_block(m->dev, u->device, u->block, job, err);
    if (rc)
        return rc;
    if (m->meter)
        meter_traffic(m->meter, m->step, PHASE_EVAL, (int)u->device, &job->meter);
    if (crc32c(0, job->buf, job->bytes) == crc)
        return 0;
    return err_set(err, -EBADMSG,
                   "device %zu (%s): the %s of block %zu at offset %" PRIu64
                   " are damaged (checksum differs)",
                   u->device, m->dev->paths[u->device],
                   job->cls == CLASS_STATES ? "states" : "values of the residual", u->block,
                   job->off);
}

int master_reader_hold(struct master_reader *m, size_t block, size_t at, struct err *err)
{
    const struct store     *st = &m->dev->store;
    const struct journal   *j = m->from;
    size_t                  i = m->held;

    // readers go upwards: it is the one that is held, or one behind it
    if (i == SIZE_MAX || st->subs[i].block != block || st->subs[i].first > at)
        i = st->block_sub[block];
    while (at >= st->subs[i].first + st->subs[i].n)
        i++;
    if (i == m->held)
        return 0;
    m->held = SIZE_MAX;
    const struct store_sub *u = &st->subs[i];
    struct csd_job states = { .cls = CLASS_STATES, .buf = m->buf,
                              .bytes = store_state_bytes(st, u->n_pad),
                              .off = store_slot_off(st, u->class_, j->subs[i].slot) };
    struct csd_job residual = { .cls = CLASS_RESIDUAL, .buf = m->buf + states.bytes,
                                .bytes = store_residual_bytes(u->n_pad),
                                .off = store_residual_off(u, j->state.applied) };
    int            rc = area_read(m, u, &states, j->subs[i].states_crc, err);

    if (!rc && j->residuals)
        rc = area_read(m, u, &residual, j->residuals[i], err);
    if (!rc)
        m->held = i;
    return rc;
}

int master_reader_read(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    struct master_reader *m = ctx;

    for (size_t part; n > 0; out += part, first += part, n -= part) {
        int rc = master_reader_hold(m, block, first, err);

        if (rc)
            return rc;
        const struct store_sub *u = &m->dev->store.subs[m->held];

        part = size_min(u->first + u->n - first, n);
        memcpy(out, m->buf + 4 * (first - u->first), 4 * part);
    }
    return 0;
}
