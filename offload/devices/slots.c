/* slots.c: writes all subgroups of a new run, several at a time; reads single subgroups back and
 * checks them. */
#include "offload/devices/slots.h"

#include "data/base/crc32c.h"
#include "kernels/elementwise.h"
#include "offload/devices/base_files.h"

/* ---- making */

enum { PARCELS = 16 };

/* A subgroup that is being written. */
struct parcel {
    char                   *buf; // [states | wire | residual]
    const struct store_sub *u;
    size_t                  zeros;     // n_pad of the last one, if its moments stayed zero
    uint32_t                zeros_crc; // of these moments
    struct csd_job          job[2];
    size_t                  flying; // jobs under way
};

static void job_send(struct devices *d, struct parcel *p, enum link_class cls, void *buf,
                     size_t bytes, uint64_t off)
{
    struct csd_job *job = &p->job[p->flying++];

    *job = (struct csd_job){ .kind = CSD_WRITE, .cls = cls, .buf = buf, .bytes = bytes,
                             .payload = bytes, .off = off, .user = p };
    struct csd *c = d->device[p->u->device].csd;
    c->ops->submit(c, job);
}

/* Waits until the parcel's buffer is free. Jobs of other parcels may come back meanwhile. */
static int parcel_wait(struct devices *d, struct parcel *p, struct err *err)
{
    uint64_t seen = 0;
    int      rc = 0;

    while (p->flying > 0) {
        struct csd     *c = d->device[p->u->device].csd;
        struct csd_job *done;

        if (c->ops->reap(c, &done, 1))
            ((struct parcel *)done->user)->flying--;
        else
            seen = bell_wait(&d->bell, seen, 1000000000u);
    }
    for (int i = 0; i < 2 && !rc; i++)
        if (p->job[i].status)
            rc = err_set(err, p->job[i].status, "%s (block %zu)", p->job[i].why, p->u->block);
    return rc;
}

/* Zeroes the parcel's buffer. What `fill` overwrites with masters need not be zeroed again. */
static void parcel_clear(const struct store *st, const struct slots_source *from, struct parcel *p,
                         const struct store_sub *u)
{
    size_t master = 4 * u->n_pad;

    if (from->masters_only && p->zeros == u->n_pad) {
        memset(p->buf + 4 * u->n, 0, master - 4 * u->n);
        return;
    }
    memset(p->buf, 0, store_sub_bytes(st, u->n_pad));
    p->zeros = from->masters_only ? u->n_pad : 0;
    p->zeros_crc = crc32c(0, p->buf + master, store_state_bytes(st, u->n_pad) - master);
}

/* Derives the wire from the master, and computes both checksums. That of zero moments is known. A
 * frozen subgroup has only a wire. */
static void parcel_seal(const struct store *st, const struct parcel *p, const struct store_sub *u,
                        struct journal_sub *row)
{
    size_t states = store_state_bytes(st, u->n_pad), master = 4 * u->n_pad;
    char  *wire = p->buf + states;

    if (u->packed)
        run_bits_put(wire, st->wire_dt, (const float *)(const void *)p->buf, u->n_pad);
    else
        convert(wire, st->wire_dt, p->buf, DT_F32, u->n_pad);
    row->wire_crc = crc32c(0, wire, store_wire_bytes(st, u->n_pad));
    if (!u->trains)
        return;
    row->states_crc = p->zeros ? crc32c_join(crc32c(0, p->buf, master), p->zeros_crc,
                                             states - master)
                               : crc32c(0, p->buf, states);
}

/* Writes subgroup i into its first slot, and fills its rows. */
static int sub_make(struct devices *d, const struct slots_source *from, size_t i, struct parcel *p,
                    struct journal *made, struct err *err)
{
    const struct store     *st = &d->store;
    const struct store_sub *u = &st->subs[i];
    size_t states = store_state_bytes(st, u->n_pad), wire = store_wire_bytes(st, u->n_pad);
    size_t held = store_states_of(st, u);
    char  *owed = made->residuals && u->trains ? p->buf + states + wire : NULL;

    parcel_clear(st, from, p, u);
    int rc = from->fill(from->ctx, u, (float *)(void *)p->buf, (float *)(void *)owed, err);
    if (rc)
        return rc;
    made->subs[i] = (struct journal_sub){ .slot = u->first_slot,
                                          .version = u->trains ? from->version : 0 };
    parcel_seal(st, p, u, &made->subs[i]);
    p->u = u;
    job_send(d, p, u->trains ? CLASS_STATES : CLASS_WIRE, p->buf + states - held, held + wire,
             store_slot_off(st, u->class_, u->first_slot));
    if (owed) {
        size_t bytes = store_residual_bytes(u->n_pad);

        made->residuals[i] = crc32c(0, owed, bytes);
        job_send(d, p, CLASS_RESIDUAL, owed, bytes, store_residual_off(u, from->version));
    }
    return 0;
}

int slots_make(struct devices *d, const struct slots_source *from, struct journal *made,
               struct err *err)
{
    const struct store *st = &d->store;
    size_t              n = st->n_subs, max = st->max_pad;
    size_t              parcels = from->bytes / store_sub_bytes(st, max);
    struct parcel       parcel[PARCELS] = { 0 };
    int                 rc = 0;

    parcels = size_max(1, size_min(size_min(parcels, n), PARCELS));

    *made = (struct journal){ .subs = calloc(n + 1, sizeof *made->subs) };
    if (st->error_feedback)
        made->residuals = calloc(n + 1, sizeof *made->residuals);
    for (size_t i = 0; i < parcels && !rc; i++)
        rc = (parcel[i].buf = devices_buffer(d, store_sub_bytes(st, max))) ? 0 : -ENOMEM;
    if (rc || !made->subs || (st->error_feedback && !made->residuals))
        rc = err_set(err, -ENOMEM, "out of memory for %zu subgroups of %zu parameters", n, max);
    for (size_t i = 0; i < n && !rc; i++) {
        struct parcel *p = &parcel[i % parcels];

        rc = parcel_wait(d, p, err);
        rc = rc ? rc : sub_make(d, from, i, p, made, err);
        rc = rc ? rc : watch_look(from->watch, i + 1, n, err);
    }
    for (size_t i = 0; i < PARCELS; i++) {
        int last = parcel_wait(d, &parcel[i], rc ? NULL : err);

        rc = rc ? rc : last;
    }
    return rc ? rc : devices_flush(d, err);
}

int slots_half_done(const struct run_config *cfg, const struct store *st, const struct journal *j,
                    struct err *err)
{
    char   line[RANKS_COMMAND], task[32];
    size_t i = 0;

    while (i < st->n_subs && (!st->subs[i].trains || j->subs[i].version == j->state.applied))
        i++;
    if (i == st->n_subs)
        return 0;
    ranks_command(line, cfg->dir, &cfg->ranks,
                  runlog_get(cfg->log, "task", task, sizeof task, NULL) == -ENOENT
                      ? "pretrain --resume" : "finetune --resume");
    return err_set(err, -EBUSY, "%s stopped in the middle of step %" PRIu64 "; `%s` finishes it",
                   cfg->dir, j->state.next_step, line);
}

int slots_record(const struct devices *d, const struct journal *made, struct runlog *log,
                 struct err *err)
{
    int rc = journal_format(log, made, d->store.n_subs, 1, err);

    rc = rc ? rc : runlog_devices_forget(log, 0, err);
    return rc ? rc : devices_record(d, log, err);
}

/* ---- reading */

int slots_reader_open(struct slots_reader *m, struct devices *dev, const struct journal *from,
                      struct err *err)
{
    const struct store *st = &dev->store;
    size_t most = st->max_pad, residual = from->residuals ? store_residual_bytes(most) : 0;
    size_t states = store_state_bytes(st, most) + residual;
    size_t wire = sizeof(float) * most + store_wire_bytes(st, most);

    *m = (struct slots_reader){ .dev = dev, .from = from, .held = SIZE_MAX };
    m->buf = devices_buffer(dev, size_max(states, wire));
    return m->buf ? 0 : err_set(err, -ENOMEM,
                                "out of memory for the states of a subgroup of %zu parameters",
                                most);
}

void slots_reader_close(struct slots_reader *m)
{
    if (m->dev)
        devices_buffer_end(m->dev, m->buf);
    *m = (struct slots_reader){ 0 };
}

/* Reads the area that `job` describes, and compares its checksum. */
static int area_read(struct slots_reader *m, const struct store_sub *u, struct csd_job *job,
                     uint32_t crc, struct err *err)
{
    job->kind = CSD_READ;
    job->payload = job->bytes;
    if (devices_run(m->dev, u->device, job, err))
        return err_set(err, job->status, "%s (block %zu)", job->why, u->block);
    if (m->meter)
        meter_traffic(m->meter, m->step, PHASE_EVAL, (int)u->device, &job->meter);
    if (crc32c(0, job->buf, job->bytes) == crc)
        return 0;
    return err_set(err, -EBADMSG,
                   "device %zu (%s): the %s of block %zu at offset %" PRIu64
                   " are damaged (checksum differs)",
                   u->device, m->dev->device[u->device].path,
                   job->cls == CLASS_STATES ? "states"
                   : job->cls == CLASS_WIRE ? "wire parameters"
                                            : "values of the residual", u->block, job->off);
}

/* Reads subgroup i's wire, and converts it to floats in front of it. */
static int hold_wire(struct slots_reader *m, size_t i, struct err *err)
{
    const struct store       *st = &m->dev->store;
    const struct store_sub   *u = &st->subs[i];
    const struct journal_sub *row = &m->from->subs[i];
    struct csd_job job = { .cls = CLASS_WIRE, .buf = m->buf + sizeof(float) * u->n_pad,
                           .bytes = store_wire_bytes(st, u->n_pad),
                           .off = store_slot_off(st, u->class_, row->slot) +
                                  store_states_of(st, u) };
    int            rc = area_read(m, u, &job, row->wire_crc, err);

    if (!rc)
        convert(m->buf, DT_F32, job.buf, st->wire_dt, u->n_pad);
    return rc;
}

int slots_reader_hold(struct slots_reader *m, size_t block, size_t at, struct err *err)
{
    const struct store     *st = &m->dev->store;
    const struct journal   *j = m->from;
    size_t                  i = m->held;

    // reads go upwards: the subgroup is the one held, or a later one
    if (i == SIZE_MAX || st->subs[i].block != block || st->subs[i].first > at)
        i = st->block_sub[block];
    while (at >= st->subs[i].first + st->subs[i].n)
        i++;
    if (i == m->held)
        return 0;
    m->held = SIZE_MAX;
    if (m->wire || !st->subs[i].trains) {
        int rc = hold_wire(m, i, err);

        m->held = rc ? SIZE_MAX : i;
        return rc;
    }
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

int slots_fit(struct devices *d, int all, struct err *err)
{
    const struct store *st = &d->store;
    struct journal      j = { 0 };
    struct slots_reader m = { 0 };
    size_t              others = 0;
    struct err          why;
    int                 rc = journal_open(&j, d->cfg.log, st->n_subs, st->error_feedback, err);

    rc = rc ? rc : slots_reader_open(&m, d, &j, err);
    for (size_t i = 0; i < st->n_subs && !rc; i++)
        if (st->subs[i].trains && (rc = hold_wire(&m, i, &why)) == -EBADMSG) {
            others++;
            rc = 0;
        } else if (rc) {
            *err = why;
        }
    if (m.dev)
        slots_reader_close(&m);
    journal_close(&j);
    if (rc || (all ? !others : 2 * others <= st->n_trained))
        return rc;
    return err_set(err, -ESTALE, "the devices hold other states than run.db of %s names (%zu of "
                   "%zu parts): a copy of the run, or a later state of it, has trained on them; "
                   "they stay as they are", d->cfg.dir, others, st->n_trained);
}

int slots_reader_read(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    struct slots_reader     *m = ctx;
    const struct run_config *cfg = &m->dev->cfg;

    if (run_in_place(cfg, block))
        return base_files_read(cfg->base, cfg->wire_dt, block, run_first(cfg, block) + first, n,
                               out, err);
    for (size_t part; n > 0; out += part, first += part, n -= part) {
        int rc = slots_reader_hold(m, block, first, err);

        if (rc)
            return rc;
        const struct store_sub *u = &m->dev->store.subs[m->held];

        part = size_min(u->first + u->n - first, n);
        memcpy(out, m->buf + 4 * (first - u->first), 4 * part);
    }
    return 0;
}

int slots_reader_copy(struct slots_reader *m, size_t block, size_t at, size_t n,
                      const struct slots_copy *out, struct err *err)
{
    const struct store *st = &m->dev->store;
    size_t              parts = 1 + (size_t)st->moments;

    for (size_t part, to = out->to; n > 0; to += part, at += part, n -= part) {
        int rc = slots_reader_hold(m, block, at, err);

        if (rc)
            return rc;
        const struct store_sub *u = &st->subs[m->held];
        const float            *held = (const float *)(void *)m->buf + (at - u->first);

        part = size_min(u->first + u->n - at, n);
        for (size_t k = 0; k < (u->trains ? parts : 1); k++)
            memcpy(out->states + k * out->n_pad + to, held + k * u->n_pad, 4 * part);
        if (out->residual && u->trains)
            memcpy(out->residual + to, held + parts * u->n_pad, 4 * part);
    }
    return 0;
}
