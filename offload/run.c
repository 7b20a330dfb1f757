/* run.c: makes the states of a run, says where it stands, and opens it for training or reading,
 * whichever its mode. */
#include "offload/run.h"

#include "data/base/crc32c.h"
#include "kernels/elementwise.h"
#include "offload/devices.h"
#include "offload/image.h"
#include "offload/journal.h"
#include "offload/master_reader.h"
#include "offload/stream_csd.h"
#include "offload/stream_mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- creation on devices */

/* A buffer for the largest slot: [master, moments, wire]. */
static void *slot_buffer(struct devices *d)
{
    const struct store *st = &d->store;
    size_t              states = store_state_bytes(st, st->max_pad);

    return devices_buffer(d, states + store_wire_bytes(st, st->max_pad));
}

/* Nothing is owed yet. */
static int residual_format(struct devices *d, size_t i, char *buf, uint32_t *crc, struct err *err)
{
    const struct store_sub *u = &d->store.subs[i];
    size_t                  bytes = store_residual_bytes(u->n_pad);
    struct csd_job          job = { .kind = CSD_WRITE, .cls = CLASS_RESIDUAL, .buf = buf,
                                    .bytes = bytes, .payload = 4 * u->n,
                                    .off = store_residual_off(u, 0) };

    memset(buf, 0, bytes);
    *crc = crc32c(0, buf, bytes);
    return devices_run_block(d, u->device, u->block, &job, err);
}

/* Subgroup i's first state into its slot; what the journal is to say of it into *row. */
static int sub_format(struct devices *d, size_t i, uint32_t slot, const struct params_source *init,
                      char *buf, struct journal_sub *row, struct err *err)
{
    const struct store     *st = &d->store;
    const struct store_sub *u = &st->subs[i];
    size_t states = store_state_bytes(st, u->n_pad), wire = store_wire_bytes(st, u->n_pad);
    struct csd_job          job = { .kind = CSD_WRITE, .cls = CLASS_STATES, .buf = buf,
                                    .bytes = states + wire, .payload = states + wire,
                                    .off = store_slot_off(st, u->class_, slot) };
    int                     rc;

    memset(buf, 0, states + wire);
    rc = init->read(init->ctx, u->block, u->first, u->n, (float *)buf, err);
    if (rc)
        return rc;
    convert(buf + states, st->wire_dt, buf, DT_F32, u->n_pad);
    *row = (struct journal_sub){ .slot = slot, .states_crc = crc32c(0, buf, states),
                                 .wire_crc = crc32c(0, buf + states, wire) };
    return devices_run_block(d, u->device, u->block, &job, err);
}

static int all_format(struct devices *d, const struct params_source *init,
                      struct journal_rows *rows, const struct watch *watch, struct err *err)
{
    uint32_t *next = calloc(d->store.n_classes, sizeof *next);
    char     *buf = slot_buffer(d);
    int       rc = 0;

    if (!buf || !next)
        rc = err_set(err, -ENOMEM, "out of memory for a subgroup of %zu parameters",
                     d->store.max_pad);

    for (size_t i = 0; !rc && i < d->store.n_subs; i++) {
        rc = sub_format(d, i, next[d->store.subs[i].class_]++, init, buf, &rows->subs[i], err);
        if (!rc && d->store.error_feedback)
            rc = residual_format(d, i, buf, &rows->residuals[i], err);
        if (!rc)
            rc = watch_look(watch, i + 1, d->store.n_subs, err);
    }
    for (size_t i = 0; !rc && i < d->n; i++) {
        struct csd_job flush = { .kind = CSD_FLUSH };

        rc = devices_run(d, i, &flush, err);
    }
    free(next);
    return rc;
}

static int rows_format(const struct run_config *cfg, struct devices *d,
                       const struct journal_rows *rows, struct err *err)
{
    int rc = runlog_begin(cfg->log, err);

    if (!rc)
        rc = journal_format(cfg->log, rows, err);
    for (size_t i = 0; !rc && i < d->n; i++)
        rc = runlog_device(cfg->log, (int)i, d->paths[i], cfg->csd->name, cfg->disk,
                           d->store.device_bytes[i], err);
    return runlog_end(cfg->log, rc, err);
}

static int csd_format(const struct run_config *cfg, const struct params_source *init,
                      struct err *err)
{
    struct devices     d;
    struct journal_rows rows;
    int                rc = devices_open(&d, cfg, DEVICES_CREATE, NULL, err);

    if (rc)
        return rc;
    rows.n_subs = d.store.n_subs;
    rows.subs = calloc(d.store.n_subs, sizeof *rows.subs);
    rows.residuals =
        d.store.error_feedback ? calloc(d.store.n_subs, sizeof *rows.residuals) : NULL;
    rc = rows.subs && (rows.residuals || !d.store.error_feedback)
             ? all_format(&d, init, &rows, cfg->watch, err)
             : err_set(err, -ENOMEM, "out of memory for %zu subgroups", d.store.n_subs);
    if (!rc)
        rc = rows_format(cfg, &d, &rows, err);
    free(rows.subs);
    free(rows.residuals);
    devices_close(&d);
    if (rc)
        devices_remove(cfg);
    return rc;
}

/* ---- reading masters from devices */

struct run_reader {
    struct devices       dev;
    struct master_reader masters;
    struct image_reader *image; // instead of both, in mem
};

static int csd_reader(struct run_reader *r, struct params_source *source,
                      const struct run_config *cfg, struct err *err)
{
    struct journal j = { 0 };
    size_t         n;
    int            rc;

    if (devices_fake(cfg))
        return err_misuse(err, "%s: nothing is stored behind --csd null or --disk null, "
                          "so there are no parameters to read", cfg->dir);
    rc = devices_open(&r->dev, cfg, DEVICES_READ, NULL, err);
    if (rc)
        return rc;
    n = r->dev.store.n_subs;
    rc = master_reader_open(&r->masters, &r->dev, err);
    if (!rc)
        rc = journal_open(&j, cfg->log, n, 0, err);
    for (size_t i = 0; !rc && i < n; i++)
        if (j.subs[i].version != j.state.applied)
            rc = err_set(err, -EBUSY, "%s stopped in the middle of step %llu; "
                         "`siTrain pretrain --resume` finishes it",
                         cfg->dir, (unsigned long long)j.state.next_step);
    if (!rc)
        memcpy(r->masters.subs, j.subs, n * sizeof *j.subs);
    journal_close(&j);
    *source = (struct params_source){ .read = master_reader_read, .ctx = &r->masters };
    return rc;
}

/* ---- by mode */

int run_format(const struct run_config *cfg, const struct params_source *init, struct err *err)
{
    return cfg->mode == RUN_MEM ? image_format(cfg, init, err) : csd_format(cfg, init, err);
}

int run_position(const struct run_config *cfg, uint64_t *next_step, uint64_t *applied,
                 struct err *err)
{
    struct image_state s;
    int                rc;

    if (cfg->mode != RUN_MEM)
        return journal_position(cfg->log, next_step, applied, err);
    rc = image_latest(cfg, &s, err);
    if (!rc) {
        *next_step = s.step;
        *applied = s.applied;
    }
    return rc;
}

int run_train(struct stream **out, const struct run_config *cfg, char *notice, size_t notice_size,
              struct err *err)
{
    uint64_t next_step, applied;
    int      rc = run_position(cfg, &next_step, &applied, err);

    if (notice_size)
        notice[0] = '\0';
    if (!rc)
        rc = runlog_check_steps(cfg->log, next_step, err);
    if (rc)
        return rc;
    return cfg->mode == RUN_MEM ? stream_mem_open(out, cfg, err)
                                : stream_csd_open(out, cfg, notice, notice_size, err);
}

int run_memory(const struct run_config *cfg, struct run_memory *out, struct err *err)
{
    if (cfg->mode != RUN_MEM)
        return stream_csd_memory(cfg, out, err);
    *out = (struct run_memory){ 0 };
    stream_mem_memory(cfg, out);
    return 0;
}

int run_reader(struct run_reader **out, struct params_source *source, const struct run_config *cfg,
               struct err *err)
{
    struct run_reader *r = calloc(1, sizeof *r);
    int                rc;

    if (!r)
        return err_set(err, -ENOMEM, "out of memory for reading %s", cfg->dir);
    rc = cfg->mode == RUN_MEM ? image_reader(&r->image, source, cfg, err)
                              : csd_reader(r, source, cfg, err);
    if (rc)
        run_reader_close(r);
    else
        *out = r;
    return rc;
}

void run_reader_close(struct run_reader *r)
{
    if (!r)
        return;
    image_reader_close(r->image);
    master_reader_close(&r->masters);
    devices_close(&r->dev);
    free(r);
}
