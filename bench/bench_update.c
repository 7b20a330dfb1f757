/* bench_update.c: measures updates on a device. It reads subgroups, updates them and writes them
 * back (csd_emu): on the first device's disk, while the caller computes, or on the null disk, which
 * leaves the arithmetic, the checksums and the hand-over. */
#include "bench/bench.h"

#include "csd/csd.h"
#include "data/base/clock.h"
#include "data/base/crc32c.h"
#include "data/file/file.h"
#include "data/base/round.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { MOST_SUBS = 512 };

/* A device. Each subgroup has a gradient and two slots: an update reads one, writes the other. */
struct rig {
    const struct bench *bench;
    struct bell         bell;
    struct csd         *csd;
    char               *path;
    int                 is_file; // otherwise a block device
    size_t              n_pad, n_subs;
    size_t              states, slot, grad;
    struct arena        buf; // for states or a gradient
    int                 turn;
    struct csd_segment  segment;
    struct csd_job      job[MOST_SUBS];
};

static uint64_t slot_off(const struct rig *r, int turn, size_t i)
{
    return ((uint64_t)(turn % 2) * r->n_subs + i) * r->slot;
}

static uint64_t grad_off(const struct rig *r, size_t i)
{
    return 2 * r->n_subs * r->slot + i * r->grad;
}

static int jobs_run(struct rig *r, struct err *err)
{
    struct csd_job *done[8];
    uint64_t        seen = 0;
    int             rc = 0;

    for (size_t i = 0; i < r->n_subs; i++)
        r->csd->ops->submit(r->csd, &r->job[i]);
    for (size_t n = r->n_subs; n > 0;) {
        int got = r->csd->ops->reap(r->csd, done, 8);

        for (int i = 0; i < got; i++)
            if (done[i]->status && !rc)
                rc = err_set(err, done[i]->status, "%s", done[i]->why);
        n -= (size_t)got;
        if (got == 0)
            seen = bell_wait(&r->bell, seen, 100000000);
    }
    return rc;
}

/* Writes buf to all states (zeros) or gradients (small). *crc: its checksum. */
static int write_all(struct rig *r, int grads, uint32_t *crc, struct err *err)
{
    size_t bytes = grads ? r->grad : r->states;

    *crc = crc32c(0, r->buf.base, bytes);
    for (size_t i = 0; i < r->n_subs; i++)
        r->job[i] = (struct csd_job){
            .kind = CSD_WRITE, .cls = grads ? CLASS_GRADIENT : CLASS_STATES, .buf = r->buf.base,
            .off = grads ? grad_off(r, i) : slot_off(r, 0, i), .bytes = bytes, .payload = bytes,
        };
    return jobs_run(r, err);
}

static int rig_fill(struct rig *r, struct err *err)
{
    float   *buf = (float *)(void *)r->buf.base;
    uint32_t states_crc, grad_crc = 0;
    int      rc = write_all(r, 0, &states_crc, err);

    for (size_t i = 0; i < r->n_pad; i++)
        buf[i] = 1e-3f * (float)(i % 17);
    rc = rc ? rc : write_all(r, 1, &grad_crc, err);
    for (size_t i = 0; i < r->n_subs; i++) // unchecked, like nearly all updates of a process
        r->job[i] = (struct csd_job){
            .kind = CSD_UPDATE,
            .update = {.n = r->n_pad, .n_pad = r->n_pad, .grad_off = grad_off(r, i),
                       .grad_crc = grad_crc, .dst_crc = states_crc, .segments = &r->segment,
                       .n_segments = 1, .unchecked = 1}};
    return rc;
}

static void rig_close(struct rig *r)
{
    if (!r)
        return;
    if (r->csd)
        r->csd->ops->close(r->csd);
    if (r->path && r->is_file)
        unlink(r->path);
    free(r->path);
    bell_release(&r->bell);
    arena_free(&r->buf);
    free(r);
}

static int largest_sub(const struct bench *b, size_t *n_pad, struct err *err)
{
    struct session s = {.dir = "bench", .config = b->config, .o = b->o->train};
    struct store   store;

    s.o.mode = s.o.mode == RUN_MEM ? RUN_SUO : s.o.mode;
    s.o.compress = 0;
    s.o.error_feedback = 0;
    int rc = session_config(&s, err);
    rc = rc ? rc : store_init(&store, &s.run, err);
    if (!rc) {
        *n_pad = store.update_pad;
        store_release(&store);
    }
    session_close(&s);
    return rc;
}

/* *out must be closed also after a failure. */
static int rig_open(struct rig **out, const struct bench *b, const struct disk_ops *disk,
                    struct err *err)
{
    const struct train_opts *o = &b->o->train;
    size_t                   total = (size_t)(b->o->quick ? 4 : 24) << 20;
    int                      moments = optim_moments((enum optim_kind)o->optimizer);
    struct rig              *r = *out = calloc(1, sizeof *r);
    char                     notice[512];

    if (!r)
        return err_set(err, -ENOMEM, "out of memory for a device");
    bell_init(&r->bell);
    int rc = largest_sub(b, &r->n_pad, err);
    if (rc)
        return rc;
    r->bench = b;
    r->is_file = disk == &disk_null || !bench_is_block(b, 0);
    r->path = disk == &disk_null ? file_path(err, "%s/null-update", b->scratch)
                                 : bench_file(b, 0, "update");
    if (!r->path)
        return err_set(err, -ENOMEM, "out of memory for a device");
    r->n_subs = size_min(size_max(total / r->n_pad, 4), MOST_SUBS);
    r->states = 4 * (1 + (size_t)moments) * r->n_pad;
    r->slot = r->states + dtype_bytes((enum dtype)o->dtype) * r->n_pad;
    r->grad = 4 * r->n_pad;
    r->segment = (struct csd_segment){0, r->n_pad, 0.01f};
    r->buf.align = ARENA_IO;
    arena_take(&r->buf, r->states);
    rc = arena_map(&r->buf, "a device's transfers", err);
    struct csd_config cfg = {
        .path = r->path, .bytes = r->n_subs * (2 * r->slot + r->grad), .create = 1, .disk = disk,
        .mem = o->csd_mem, .update_params = r->n_pad, .moments = moments,
        .wire_dt = (enum dtype)o->dtype, .handler = run_modes[o->mode].handler,
        .update_link = run_modes[o->mode].update_link, .bell = &r->bell,
    };
    rc = rc ? rc : csd_emu.open(&r->csd, &cfg, notice, sizeof notice, err);
    if (!rc && disk != &disk_null)
        rc = bench_device_ask(b, 0, err);
    return rc ? rc : rig_fill(r, err);
}

/* Updates all subgroups once. *rate: parameters/s. */
static int rig_measure(void *ctx, double *rate, struct err *err)
{
    struct rig *r = ctx;
    uint64_t    start_ns = clock_ns();

    for (size_t i = 0; i < r->n_subs; i++) {
        struct csd_update *u = &r->job[i].update;

        u->src_off = slot_off(r, r->turn, i);
        u->dst_off = slot_off(r, r->turn + 1, i);
        u->src_crc = u->dst_crc;
        optim_scalars(&u->step, (enum optim_kind)r->bench->o->train.optimizer, 1e-4, 0.9, 0.999,
                      1e-8, 1, (uint64_t)r->turn + 1);
    }
    int rc = jobs_run(r, err);
    *rate = (double)(r->n_subs * r->n_pad) / ((double)(clock_ns() - start_ns) * 1e-9);
    r->turn++;
    return rc;
}

int bench_update_path(struct bench *b, const struct disk_ops *disk, double *seconds,
                      struct err *err)
{
    struct rig       *r;
    double            unmeasured;
    int               rc = rig_open(&r, b, disk, err);
    struct bench_item item = {.measure = rig_measure, .ctx = r};

    rc = rc ? rc : rig_measure(r, &unmeasured, err);
    rc = rc ? rc : bench_rounds(&item, 1, b->o->rounds, 0, err);
    if (!rc)
        *seconds = 1 / item.median;
    rig_close(r);
    return rc;
}

/* ---- during computing ---- */

struct bench_beside {
    struct rig *rig;
    pthread_t   thread;
    atomic_bool stop;
    double      rate; // parameters per second
    int         rc;
    struct err  err;
};

static void *beside_run(void *ctx)
{
    struct bench_beside *s = ctx;
    uint64_t             start_ns = clock_ns();
    double               unmeasured, n = 0;

    do { // at least one, even if this thread starts late
        s->rc = rig_measure(s->rig, &unmeasured, &s->err);
        n += (double)(s->rig->n_subs * s->rig->n_pad);
    } while (!s->rc && !atomic_load(&s->stop));
    s->rate = n / ((double)(clock_ns() - start_ns) * 1e-9);
    return NULL;
}

int bench_beside_open(struct bench_beside **out, struct bench *b, struct err *err)
{
    struct bench_beside *s = *out = calloc(1, sizeof *s);

    return s ? rig_open(&s->rig, b, disk_at((size_t)b->o->train.disk), err)
             : err_set(err, -ENOMEM, "out of memory for a device");
}

int bench_beside_start(struct bench_beside *s, struct err *err)
{
    atomic_store(&s->stop, 0);
    s->rc = 0;
    int rc = -pthread_create(&s->thread, NULL, beside_run, s);
    return rc ? err_set(err, rc, "a thread for updates: %s", strerror(-rc)) : 0;
}

double bench_beside_stop(struct bench_beside *s, struct err *err)
{
    atomic_store(&s->stop, 1);
    pthread_join(s->thread, NULL);
    if (s->rc)
        *err = s->err;
    return s->rc ? 0 : s->rate;
}

void bench_beside_close(struct bench_beside *s)
{
    if (!s)
        return;
    rig_close(s->rig);
    free(s);
}
