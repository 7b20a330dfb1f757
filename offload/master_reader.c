/* master_reader.c: finds the subgroup that holds a parameter, reads its states, checks them, hands
 * out the masters at their beginning. */
#include "offload/master_reader.h"

#include "data/base/crc32c.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint64_t master_reader_bytes(const struct store *st)
{
    return store_state_bytes(st, st->max_pad) + st->n_subs * sizeof(struct journal_sub);
}

int master_reader_open(struct master_reader *m, struct devices *dev, struct err *err)
{
    *m = (struct master_reader){ .dev = dev, .held = SIZE_MAX };
    m->subs = calloc(dev->store.n_subs, sizeof *m->subs);
    m->buf = devices_buffer(dev, store_state_bytes(&dev->store, dev->store.max_pad));
    if (m->subs && m->buf)
        return 0;
    master_reader_close(m);
    return err_set(err, -ENOMEM, "out of memory for the states of a subgroup of %zu parameters",
                   dev->store.max_pad);
}

void master_reader_close(struct master_reader *m)
{
    free(m->subs);
    if (m->dev)
        devices_buffer_end(m->dev, m->buf);
    *m = (struct master_reader){ 0 };
}

/* The subgroup that holds parameter `at` of a block. */
static size_t sub_find(const struct store *st, size_t block, size_t at)
{
    size_t i = st->block_sub[block];

    while (at >= st->subs[i].first + st->subs[i].n)
        i++;
    return i;
}

static int sub_load(struct master_reader *m, size_t i, struct err *err)
{
    const struct store     *st = &m->dev->store;
    const struct store_sub *u = &st->subs[i];
    size_t                  states = store_state_bytes(st, u->n_pad);
    struct csd_job job = { .kind = CSD_READ,
                           .cls = CLASS_STATES,
                           .buf = m->buf,
                           .bytes = states,
                           .payload = states,
                           .off = store_slot_off(st, u->class_, m->subs[i].slot) };
    int                     rc;

    if (m->held == i)
        return 0;
    m->held = SIZE_MAX;
    rc = devices_run_block(m->dev, u->device, u->block, &job, err);
    if (rc)
        return rc;
    if (m->meter)
        meter_traffic(m->meter, m->step, PHASE_EVAL, (int)u->device, &job.meter);
    if (crc32c(0, m->buf, states) != m->subs[i].states_crc)
        return err_set(err, -EBADMSG,
                       "device %zu (%s): the states of block %zu at offset %llu are damaged "
                       "(checksum differs)",
                       u->device, m->dev->paths[u->device], u->block, (unsigned long long)job.off);
    m->held = i;
    return 0;
}

int master_reader_read(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    struct master_reader *m = ctx;

    while (n > 0) {
        size_t                  i = sub_find(&m->dev->store, block, first);
        const struct store_sub *u = &m->dev->store.subs[i];
        size_t                  part = u->first + u->n - first < n ? u->first + u->n - first : n;
        int                     rc = sub_load(m, i, err);

        if (rc)
            return rc;
        memcpy(out, m->buf + 4 * (first - u->first), 4 * part);
        out += part;
        first += part;
        n -= part;
    }
    return 0;
}
