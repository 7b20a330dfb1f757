/* bench_update.c: the update path of one device: subgroups are read, updated and written back by
 * the device itself (csd_emu), taking turns with the same mix of reads and writes that does nothing
 * else, and with fio's. Beside it the same on the null disk: the arithmetic, the checksums and the
 * hand-over alone. */
#include "cmd/bench/bench.h"

#include "csd/csd.h"
#include "data/base/clock.h"
#include "data/base/crc32c.h"
#include "data/base/file.h"
#include "data/base/round.h"
#include "offload/devices.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_SUBS = 512 };

/* A device with its subgroups: two slots each, of which an update reads one and writes the other,
 * and a gradient. */
struct rig {
    const struct bench *bench;
    struct csd_bell    bell;
    struct csd        *csd;
    char              *path;
    int                is_file; // else a block device
    size_t             n_pad, n_subs, states, slot, grad;
    struct arena       buf; // states or a gradient
    int                turn;
    struct csd_segment segment;
    struct csd_job     job[MOST_SUBS];
};

static uint64_t slot_off(const struct rig *r, int turn, size_t i)
{
    return ((uint64_t)(turn % 2) * r->n_subs + i) * r->slot;
}

static uint64_t grad_off(const struct rig *r, size_t i)
{
    return 2 * r->n_subs * (uint64_t)r->slot + i * r->grad;
}

/* Submit the first n jobs and wait for them. */
static int jobs_run(struct rig *r, size_t n, struct err *err)
{
    struct csd_job *done[8];
    uint64_t        seen = 0;
    int             rc = 0;

    for (size_t i = 0; i < n; i++)
        r->csd->ops->submit(r->csd, &r->job[i]);
    while (n > 0) {
        int got = r->csd->ops->reap(r->csd, done, 8);

        for (int i = 0; i < got; i++)
            if (done[i]->status && !rc)
                rc = err_set(err, done[i]->status, "%s", done[i]->why);
        n -= (size_t)got;
        if (got == 0)
            seen = csd_bell_wait(&r->bell, seen, 100000000);
    }
    return rc;
}

/* Write what is in buf to the place of each gradient, or of each state. */
static int write_all(struct rig *r, enum link_class cls, size_t bytes, int grads, struct err *err)
{
    for (size_t i = 0; i < r->n_subs; i++)
        r->job[i] = (struct csd_job){
            .kind = CSD_WRITE, .cls = cls, .buf = r->buf.base,
            .off = grads ? grad_off(r, i) : slot_off(r, 0, i), .bytes = bytes, .payload = bytes,
        };
    return jobs_run(r, r->n_subs, err);
}

/* Zero states and a small gradient everywhere. */
static int rig_fill(struct rig *r, struct err *err)
{
    float   *buf = (float *)(void *)r->buf.base;
    uint32_t states_crc = crc32c(0, buf, r->states), grad_crc;
    int      rc = write_all(r, CLASS_STATES, r->states, 0, err);

    for (size_t i = 0; i < r->n_pad; i++)
        buf[i] = 1e-3f * (float)(i % 17);
    grad_crc = crc32c(0, buf, r->grad);
    if (!rc)
        rc = write_all(r, CLASS_GRADIENT, r->grad, 1, err);
    for (size_t i = 0; i < r->n_subs; i++)
        r->job[i] = (struct csd_job){.kind = CSD_UPDATE,
                                     .update = {.n = r->n_pad,
                                                .n_pad = r->n_pad,
                                                .grad_off = grad_off(r, i),
                                                .grad_crc = grad_crc,
                                                .dst_crc = states_crc,
                                                .segments = &r->segment,
                                                .n_segments = 1,
                                                .calm = 1}}; // as all but a process's first are
    return rc;
}

static void rig_close(struct rig *r)
{
    if (r->csd)
        r->csd->ops->close(r->csd);
    if (r->path)
        csd_bell_release(&r->bell);
    if (r->path && r->is_file)
        unlink(r->path);
    free(r->path);
    arena_free(&r->buf);
    memset(r, 0, sizeof *r);
}

/* Subgroups as large as the model's are on devices of --csd-mem. */
static int largest_sub(const struct bench *b, size_t *n_pad, struct err *err)
{
    struct session s = {.dir = "bench", .gpt = b->gpt, .o = b->o->train};
    struct store   store;
    int            rc;

    s.o.mode = s.o.mode == RUN_MEM ? RUN_SUO : s.o.mode;
    s.o.compress = 0;
    s.o.error_feedback = 0;
    rc = session_config(&s, err);
    if (!rc)
        rc = store_init(&store, &s.run, err);
    if (!rc) {
        *n_pad = store.max_pad;
        store_release(&store);
    }
    session_close(&s);
    return rc;
}

static int rig_open(struct rig *r, const struct bench *b, const char *disk, size_t n_pad,
                    struct err *err)
{
    const struct train_opts *o = &b->o->train;
    size_t                   total = (size_t)(b->o->quick ? 4 : 24) << 20;
    char                     notice[512];
    int                      moments = optim_moments((enum optim_kind)o->optimizer), rc;

    r->bench = b;
    r->n_pad = n_pad;
    r->n_subs = size_min(size_max(total / n_pad, 4), MOST_SUBS);
    r->states = 4 * (1 + (size_t)moments) * n_pad;
    r->slot = r->states + dtype_bytes((enum dtype)o->dtype) * n_pad;
    r->grad = 4 * n_pad;
    r->segment = (struct csd_segment){0, n_pad, 0.01f};
    r->buf.align = ARENA_IO;
    arena_take(&r->buf, r->states);
    r->is_file = !strcmp(disk, "null") || !bench_is_block(b, 0);
    rc = arena_map(&r->buf, "a device's transfers", err);
    if (rc)
        return rc;
    r->path = file_path(err, r->is_file ? "%s/update-%s" : "%s",
                        b->n_devices ? b->devices[0] : b->scratch, disk);
    if (!r->path)
        return -ENOMEM;
    csd_bell_init(&r->bell);
    struct csd_config cfg = {
        .path = r->path, .bytes = r->n_subs * (2 * r->slot + r->grad), .create = 1, .disk = disk,
        .mem = o->csd_mem, .update_params = n_pad, .moments = moments,
        .wire_dt = (enum dtype)o->dtype, .naive = o->mode == RUN_SU,
        .update_on_host = o->mode == RUN_BASE, .bell = &r->bell,
    };
    rc = csd_emu.open(&r->csd, &cfg, notice, sizeof notice, err);
    return rc ? rc : rig_fill(r, err);
}

/* All subgroups once: bytes/s read and written. */
static int rig_measure(void *ctx, double *rate, struct err *err)
{
    struct rig *r = ctx;
    uint64_t    start_ns = clock_ns();
    int         rc;

    for (size_t i = 0; i < r->n_subs; i++) {
        struct csd_update *u = &r->job[i].update;

        u->src_off = slot_off(r, r->turn, i);
        u->dst_off = slot_off(r, r->turn + 1, i);
        u->src_crc = u->dst_crc;
        optim_scalars(&u->step, (enum optim_kind)r->bench->o->train.optimizer, 1e-4, 0.9, 0.999,
                      1e-8, 1, (uint64_t)r->turn + 1);
    }
    rc = jobs_run(r, r->n_subs, err);
    *rate = (double)(r->n_subs * (r->states + r->grad + r->slot)) /
            ((double)(clock_ns() - start_ns) * 1e-9);
    r->turn++;
    return rc;
}

int bench_update_arithmetic(struct bench *b, double *seconds, struct err *err)
{
    struct rig       *r = calloc(1, sizeof *r);
    struct bench_item item = {.measure = rig_measure, .ctx = r};
    size_t            n_pad = 0;
    double            unmeasured;
    int rc = r ? largest_sub(b, &n_pad, err) : err_set(err, -ENOMEM, "out of memory");

    if (!rc)
        rc = rig_open(r, b, "null", n_pad, err);
    if (!rc)
        rc = rig_measure(r, &unmeasured, err);
    if (!rc)
        rc = bench_rounds(&item, 1, b->o->rounds, 0, err);
    if (!rc)
        *seconds = (double)(r->states + r->grad + r->slot) / (double)n_pad / item.median;
    if (r)
        rig_close(r);
    free(r);
    return rc;
}

/* What takes turns: medians are shares of each other. */
enum { PATH, MIXED, BURSTS, FIO, ARITHMETIC, TURNS };

/* A block device is one's own: its turns are over before the disk's begin. */
static int measure(struct bench *b, struct rig *r, struct bench_item items[TURNS], struct err *err)
{
    struct bench_place *p = NULL;
    int                 alone = !r[0].is_file;
    double              unmeasured;
    int                 rc = rig_measure(&r[0], &unmeasured, err);

    items[PATH] = (struct bench_item){.measure = rig_measure, .ctx = &r[0]};
    items[ARITHMETIC] = (struct bench_item){.measure = rig_measure, .ctx = &r[1]};
    if (alone && !rc) {
        rc = bench_rounds(&items[PATH], 1, b->o->rounds, 0, err);
        rig_close(&r[0]);
    }
    if (!rc)
        rc = bench_place_open(&p, b, 0, err);
    if (!rc) {
        items[MIXED] = bench_place_item(p, BENCH_MIXED, 0);
        items[BURSTS] = bench_place_item(p, BENCH_BURSTS, 0);
        items[FIO] = bench_place_item(p, BENCH_MIXED, 1);
        rc = bench_rounds(items + alone, (size_t)(TURNS - alone), b->o->rounds, 0, err);
    }
    bench_place_close(p);
    return rc;
}

static void rates_report(const struct bench_item items[TURNS], json_t *section)
{
    static const char *const what[TURNS] = {"update path", "the disk, even mix",
                                            "the disk, bursts", "fio, even mix",
                                            "update path, null disk"};
    json_t                  *rows = json_array();

    json_object_set_new(section, "rates", rows);
    for (int i = 0; i < TURNS; i++) {
        double rate = items[i].median, share = rate > 0 ? items[PATH].median / rate : 0;

        if (!items[i].left_out)
            json_array_append_new(rows, json_pack("{s:s, s:f, s:f}", "what", what[i],
                                                  "bytes_per_second", rate, "update_path_share",
                                                  share));
    }
}

static int update_run(struct bench *b, json_t *section, struct err *err)
{
    struct rig       *r = calloc(2, sizeof *r);
    struct bench_item items[TURNS] = {0};
    size_t            n_pad = 0;
    int rc = r ? largest_sub(b, &n_pad, err) : err_set(err, -ENOMEM, "out of memory");

    if (!rc)
        rc = rig_open(&r[0], b, disk_name((size_t)b->o->train.disk), n_pad, err);
    if (!rc)
        rc = rig_open(&r[1], b, "null", n_pad, err);
    if (!rc) {
        json_object_set_new(section, "subgroup_parameters", json_integer((json_int_t)n_pad));
        json_object_set_new(section, "subgroups", json_integer((json_int_t)r->n_subs));
        rc = measure(b, r, items, err);
    }
    if (!rc)
        rates_report(items, section);
    for (size_t i = 0; r && i < 2; i++)
        rig_close(&r[i]);
    free(r);
    return rc;
}

static void update_print(const json_t *section)
{
    static const struct bench_column columns[] = {
        {"what", "update", NULL, 0},
        {"bytes_per_second", "MB/s", "%.0f", 1e-6},
        {"update_path_share", "the path's share", "%.0f %%", 100},
        {0}};
    const json_t *rows = json_object_get(section, "rates"),
                 *fio = bench_row(rows, "what", "fio, even mix"),
                 *against = fio ? fio : json_array_get(rows, MIXED);

    printf("Update path of one device: %.0f subgroups of %.0f parameters read, updated, written "
           "back\n",
           bench_number(section, "subgroups"), bench_number(section, "subgroup_parameters"));
    bench_table(rows, columns, NULL);
    printf("=> %.0f %% of what %s moves with the same mix\n",
           100 * bench_number(against, "update_path_share"), fio ? "fio" : "the disk");
}

const struct bench_section bench_update = {"update", 0, {NULL}, update_run, update_print};
