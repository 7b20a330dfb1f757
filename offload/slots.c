/* slots.c: subgroup after subgroup is put together in a buffer, each on its way to its device while
 * the next one is filled. */
#include "offload/slots.h"

#include "data/base/crc32c.h"
#include "kernels/elementwise.h"

enum { PARCELS = 2 };

/* A subgroup on its way. */
struct parcel {
    char                   *buf; // [states | wire | residual]
    const struct store_sub *u;
    struct csd_job          job[2];
    size_t                  flying; // of the jobs
};

static void job_send(struct devices *d, struct parcel *p, enum link_class cls, void *buf,
                     size_t bytes, uint64_t off)
{
    struct csd_job *job = &p->job[p->flying++];

    *job = (struct csd_job){ .kind = CSD_WRITE, .cls = cls, .buf = buf, .bytes = bytes,
                             .payload = bytes, .off = off, .user = p };
    d->csd[p->u->device]->ops->submit(d->csd[p->u->device], job);
}

/* Until its buffer is free. What comes back meanwhile may be the other one's. */
static int parcel_wait(struct devices *d, struct parcel *p, struct err *err)
{
    uint64_t seen = 0;
    int      rc = 0;

    while (p->flying > 0) {
        struct csd     *c = d->csd[p->u->device];
        struct csd_job *done;

        if (c->ops->reap(c, &done, 1))
            ((struct parcel *)done->user)->flying--;
        else
            seen = csd_bell_wait(&d->bell, seen, 1000000000u);
    }
    for (int i = 0; i < 2 && !rc; i++)
        if (p->job[i].status)
            rc = err_set(err, p->job[i].status, "%s (block %zu)", p->job[i].why, p->u->block);
    return rc;
}

/* Subgroup i into its slot, and its rows. */
static int sub_make(struct devices *d, const struct slots_source *from, size_t i, uint32_t slot,
                    struct parcel *p, struct journal_rows *rows, struct err *err)
{
    const struct store     *st = &d->store;
    const struct store_sub *u = &st->subs[i];
    size_t states = store_state_bytes(st, u->n_pad), wire = store_wire_bytes(st, u->n_pad);
    char  *owed = rows->residuals ? p->buf + states + wire : NULL;

    memset(p->buf, 0, store_sub_bytes(st, u->n_pad));
    int rc = from->fill(from->ctx, u, (float *)(void *)p->buf, (float *)(void *)owed, err);
    if (rc)
        return rc;
    convert(p->buf + states, st->wire_dt, p->buf, DT_F32, u->n_pad);
    rows->subs[i] = (struct journal_sub){ .slot = slot, .version = from->version,
                                          .states_crc = crc32c(0, p->buf, states),
                                          .wire_crc = crc32c(0, p->buf + states, wire) };
    p->u = u;
    job_send(d, p, CLASS_STATES, p->buf, states + wire, store_slot_off(st, u->class_, slot));
    if (owed) {
        size_t bytes = store_residual_bytes(u->n_pad);

        rows->residuals[i] = crc32c(0, owed, bytes);
        job_send(d, p, CLASS_RESIDUAL, owed, bytes, store_residual_off(u, from->version));
    }
    return 0;
}

int slots_make(struct devices *d, const struct slots_source *from, struct journal_rows *rows,
               struct err *err)
{
    const struct store *st = &d->store;
    size_t              n = st->n_subs, max = st->max_pad;
    struct parcel       parcel[PARCELS] = { 0 };
    uint32_t           *next = calloc(st->n_classes, sizeof *next); // slots
    int                 rc = 0;

    *rows = (struct journal_rows){ .n_subs = n, .subs = calloc(n, sizeof *rows->subs),
                                   .residuals = st->error_feedback
                                                    ? calloc(n, sizeof *rows->residuals) : NULL };
    for (size_t i = 0; i < from->in_flight && !rc; i++)
        rc = (parcel[i].buf = devices_buffer(d, store_sub_bytes(st, max))) ? 0 : -ENOMEM;
    if (rc || !next || !rows->subs || (st->error_feedback && !rows->residuals))
        rc = err_set(err, -ENOMEM, "out of memory for %zu subgroups of %zu parameters", n, max);
    for (size_t i = 0; i < n && !rc; i++) {
        struct parcel *p = &parcel[i % from->in_flight];

        rc = parcel_wait(d, p, err);
        rc = rc ? rc : sub_make(d, from, i, next[st->subs[i].class_]++, p, rows, err);
        rc = rc ? rc : watch_look(from->watch, i + 1, n, err);
    }
    for (size_t i = 0; i < PARCELS; i++) {
        int last = parcel_wait(d, &parcel[i], rc ? NULL : err);

        rc = rc ? rc : last;
    }
    free(next);
    return rc ? rc : devices_flush(d, err);
}
