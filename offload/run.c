/* run.c: makes the states of a run, says where it stands, and opens it for training or reading, in
 * each of the modes. */
#include "offload/run.h"

#include "data/base/round.h"
#include "offload/devices/image.h"
#include "offload/stream/stream_open.h"
#include "offload/upkeep/parts.h"

/* ---- creation on devices */

/* Memory for subgroups that are being written. It is at most what a training has for its parameters
 * and gradients, and enough to keep drives busy. */
enum { FORMAT_BYTES = 128 << 20 };

/* The source of the first parameters, of which this rank writes its portions. */
struct portions { const struct run_config *cfg; const struct params_source *init; };

/* Fills a subgroup's states: masters from the caller's source; moments and residual are zero. */
static int sub_init(void *ctx, const struct store_sub *u, float *states, float *residual,
                    struct err *err)
{
    const struct portions *p = ctx;

    (void)residual;
    return p->init->read(p->init->ctx, u->block, run_first(p->cfg, u->block) + u->first, u->n,
                         states, err);
}

static int csd_format(const struct run_config *cfg, const struct params_source *init,
                      struct err *err)
{
    struct portions      source = { cfg, init };
    struct devices       d;
    struct journal       made;
    struct run_memory    m;
    int                  rc = stream_csd_memory(cfg, &m, err);

    rc = rc ? rc : devices_open(&d, cfg, DEVICES_CREATE, NULL, err);
    if (rc)
        return rc;
    rc = slots_make(&d, &(struct slots_source){ .fill = sub_init, .ctx = &source, .masters_only = 1,
                                                .bytes = size_min(m.frames + m.grads, FORMAT_BYTES),
                                                .watch = cfg->watch }, &made, err);
    if (!rc && !(rc = runlog_begin(cfg->log, err))) {
        rc = journal_format(cfg->log, &made, d.store.n_subs, 0, err);
        rc = rc ? rc : devices_record(&d, cfg->log, err);
        rc = runlog_end(cfg->log, rc, err);
    }
    journal_close(&made);
    if (rc)
        devices_discard(&d);
    devices_close(&d);
    return rc;
}

/* ---- by mode */

int run_format(const struct run_config *cfg, const struct params_source *init, struct err *err)
{
    int rc = 0;

    for (size_t b = 0; b < run_blocks(cfg) && !rc; b++)
        rc = run_in_place(cfg, b) ? runlog_raise(cfg->log, FORMAT_IN_PLACE, err)
             : run_packed(cfg, b) ? runlog_raise(cfg->log, FORMAT_PACKED, err)
             : run_trains(cfg, b) ? 0 : runlog_raise(cfg->log, FORMAT_FROZEN, err);
    if (rc)
        return rc;
    return cfg->mode == RUN_MEM ? image_format(cfg, init, err) : csd_format(cfg, init, err);
}

int run_position(const struct run_config *cfg, uint64_t *next_step, uint64_t *applied,
                 struct err *err)
{
    struct image_state s;

    if (cfg->mode != RUN_MEM)
        return journal_position(cfg->log, next_step, applied, err);
    int rc = image_latest(cfg, &s, err);
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

    if (!rc && cfg->ranks.size > 1 && !cfg->ranks.comm)
        rc = err_misuse(err, "%s is the part of rank %zu of a run of %zu ranks: mpirun -n %zu "
                        "starts all of them", cfg->dir, cfg->ranks.rank, cfg->ranks.size,
                        cfg->ranks.size);
    rc = rc ? rc : runlog_check_steps(cfg->log, next_step, err);
    if (rc)
        return rc;
    return cfg->mode == RUN_MEM ? stream_mem_open(out, cfg, err)
                                : stream_csd_open(out, cfg, notice, notice_size, err);
}

int run_memory(const struct run_config *cfg, struct run_memory *out, struct err *err)
{
    if (cfg->mode != RUN_MEM)
        return stream_csd_memory(cfg, out, err);
    stream_mem_memory(cfg, out);
    return 0;
}

/* ---- reading masters */

struct run_reader {
    struct parts        parts; // parts: modes with devices; image: mode mem
    struct image_reader image;
};

int run_reader(struct run_reader **out, struct params_source *source, const struct run_config *cfg,
               struct err *err)
{
    struct run_reader *r = calloc(1, sizeof *r);

    if (!r)
        return err_set(err, -ENOMEM, "out of memory for reading %s", cfg->dir);
    *source = (struct params_source){ .read = parts_read, .ctx = &r->parts };
    int rc = cfg->mode == RUN_MEM ? image_reader_open(&r->image, source, cfg, err)
                                  : parts_open(&r->parts, cfg, err);
    if (rc)
        run_reader_close(r);
    else
        *out = r;
    return rc;
}

void run_reader_rounded(struct run_reader *r, enum dtype dt)
{
    for (size_t i = 0; i < r->parts.n; i++) {
        struct slots_reader *masters = &r->parts.part[i].states;
        enum dtype           wire = r->parts.part[i].dev.store.wire_dt;

        masters->held = SIZE_MAX;
        masters->wire = dt == wire || wire == DT_F32;
    }
}

void run_reader_close(struct run_reader *r)
{
    if (!r)
        return;
    image_reader_close(&r->image);
    parts_close(&r->parts);
    free(r);
}

int run_reader_memory(const struct run_config *cfg, uint64_t *bytes, struct err *err)
{
    struct run_memory m;
    int               rc = 0;

    *bytes = 0;
    for (size_t i = 0; cfg->mode != RUN_MEM && i < size_max(cfg->ranks.size, 1) && !rc; i++) {
        const struct run_config *part = cfg->ranks.parts ? cfg->ranks.parts[i] : cfg;

        rc = run_memory(part, &m, err);
        *bytes += rc ? 0 : m.arenas / part->n_devices; // one slot at a time goes through a buffer
    }
    return rc;
}
