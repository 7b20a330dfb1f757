/* bench_update.c: measures updates on the devices that share the first one's drive. The devices
 * read subgroups, update them and write them back (csd_emu), in turn with the same mix of reads and
 * writes alone. It also measures them on the null disk, which leaves the arithmetic, the checksums
 * and the hand-over. */
#include "bench/bench.h"

#include "csd/csd.h"
#include "data/base/clock.h"
#include "data/base/crc32c.h"
#include "data/base/file.h"
#include "data/base/round.h"
#include "offload/devices/devices.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_SUBS = 512, MOST_DEVICES = 16 };

/* Devices with their subgroups. Each has two slots, of which an update reads one and writes the
 * other, and a gradient. */
struct rig {
    const struct bench *bench;
    struct bell    bell;
    size_t             n_devices;
    struct csd        *csd[MOST_DEVICES];
    char              *path[MOST_DEVICES];
    int                is_file;              // otherwise block devices
    size_t             n_pad, n_subs, n_jobs; // subgroups per device, and in all
    size_t             states, slot, grad;
    struct arena       buf; // for states or a gradient
    int                turn;
    struct csd_segment segment;
    struct csd_job     job[MOST_SUBS];
};

/* Subgroup i is on device i % n_devices. */
static uint64_t slot_off(const struct rig *r, int turn, size_t i)
{
    return ((uint64_t)(turn % 2) * r->n_subs + i / r->n_devices) * r->slot;
}

static uint64_t grad_off(const struct rig *r, size_t i)
{
    return 2 * r->n_subs * r->slot + i / r->n_devices * r->grad;
}

/* Submits a job for each subgroup, and waits for them. */
static int jobs_run(struct rig *r, struct err *err)
{
    struct csd_job *done[8];
    uint64_t        seen = 0;
    int             rc = 0;

    for (size_t i = 0; i < r->n_jobs; i++) {
        struct csd *c = r->csd[i % r->n_devices];

        c->ops->submit(c, &r->job[i]);
    }
    for (size_t n = r->n_jobs; n > 0;) {
        int all = 0;

        for (size_t d = 0; d < r->n_devices; d++) {
            int got = r->csd[d]->ops->reap(r->csd[d], done, 8);

            for (int i = 0; i < got; i++)
                if (done[i]->status && !rc)
                    rc = err_set(err, done[i]->status, "%s", done[i]->why);
            all += got;
        }
        n -= (size_t)all;
        if (all == 0)
            seen = bell_wait(&r->bell, seen, 100000000);
    }
    return rc;
}

/* Writes buf to all states (zeros) or gradients (small). *crc: its checksum. */
static int write_all(struct rig *r, int grads, uint32_t *crc, struct err *err)
{
    size_t bytes = grads ? r->grad : r->states;

    *crc = crc32c(0, r->buf.base, bytes);
    for (size_t i = 0; i < r->n_jobs; i++)
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
    for (size_t i = 0; i < r->n_jobs; i++) // unchecked, like nearly all updates of a process
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
    for (size_t d = 0; d < r->n_devices; d++) {
        if (r->csd[d])
            r->csd[d]->ops->close(r->csd[d]);
        if (r->path[d] && r->is_file)
            unlink(r->path[d]);
        free(r->path[d]);
    }
    bell_release(&r->bell);
    arena_free(&r->buf);
    free(r);
}

/* Finds the size of the model's subgroups on devices of --csd-mem. */
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
        *n_pad = store.max_pad;
        store_release(&store);
    }
    session_close(&s);
    return rc;
}

/* The number of the run's devices on the first one's drive. Without --device, all are. */
static size_t devices_there(const struct bench *b)
{
    size_t      n = 1;
    struct stat first, other;

    if (!b->n_devices)
        return size_min(b->o->train.devices, MOST_DEVICES);
    if (!bench_is_block(b, 0) && !stat(b->devices[0], &first))
        for (size_t i = 1; i < b->n_devices; i++)
            n += !bench_is_block(b, i) && !stat(b->devices[i], &other) &&
                 other.st_dev == first.st_dev;
    return size_min(n, MOST_DEVICES);
}

static int device_open(struct rig *r, size_t d, const struct csd_config *every, struct err *err)
{
    struct csd_config cfg = *every;
    int               null = cfg.disk == &disk_null;
    char              name[32], notice[512];

    snprintf(name, sizeof name, "update%zu", d);
    r->path[d] = null ? file_path(err, "%s/null-%s", r->bench->scratch, name)
                      : bench_file(r->bench, 0, name);
    if (!r->path[d])
        return err_set(err, -ENOMEM, "out of memory for a device");
    cfg.path = r->path[d];
    cfg.id = (int)d;
    int rc = csd_emu.open(&r->csd[d], &cfg, notice, sizeof notice, err);
    return rc || null ? rc : bench_device_ask(r->bench, 0, err);
}

/* *out must be closed also after a failure. */
static int rig_open(struct rig **out, const struct bench *b, size_t n_devices,
                    const struct disk_ops *disk, struct err *err)
{
    const struct train_opts *o = &b->o->train;
    size_t                   total = (size_t)(b->o->quick ? 4 : 24) << 20;
    int                      moments = optim_moments((enum optim_kind)o->optimizer);
    struct rig              *r = *out = calloc(1, sizeof *r);

    if (!r)
        return err_set(err, -ENOMEM, "out of memory for a device");
    bell_init(&r->bell);
    int rc = largest_sub(b, &r->n_pad, err);
    if (rc)
        return rc;
    r->bench = b;
    r->n_devices = n_devices;
    r->is_file = disk == &disk_null || !bench_is_block(b, 0);
    r->n_subs = size_min(size_max(total / r->n_pad / n_devices, 4), MOST_SUBS / n_devices);
    r->n_jobs = r->n_subs * n_devices;
    r->states = 4 * (1 + (size_t)moments) * r->n_pad;
    r->slot = r->states + dtype_bytes((enum dtype)o->dtype) * r->n_pad;
    r->grad = 4 * r->n_pad;
    r->segment = (struct csd_segment){0, r->n_pad, 0.01f};
    r->buf.align = ARENA_IO;
    arena_take(&r->buf, r->states);
    rc = arena_map(&r->buf, "a device's transfers", err);
    struct csd_config cfg = {
        .bytes = r->n_subs * (2 * r->slot + r->grad), .create = 1, .disk = disk,
        .mem = o->csd_mem, .update_params = r->n_pad, .moments = moments,
        .wire_dt = (enum dtype)o->dtype, .handler = o->mode == RUN_SU ? CSD_NAIVE : CSD_HANDED_OVER,
        .update_link = o->mode == RUN_BASE ? LINK_HOST : LINK_INTERNAL, .bell = &r->bell,
    };
    for (size_t d = 0; d < n_devices && !rc; d++)
        rc = device_open(r, d, &cfg, err);
    return rc ? rc : rig_fill(r, err);
}

/* Bytes that an update of all subgroups reads and writes. */
static double rig_bytes(const struct rig *r)
{
    return (double)(r->n_jobs * (r->states + r->grad + r->slot));
}

/* Updates all subgroups once. *rate: bytes/s. */
static int rig_measure(void *ctx, double *rate, struct err *err)
{
    struct rig *r = ctx;
    uint64_t    start_ns = clock_ns();

    for (size_t i = 0; i < r->n_jobs; i++) {
        struct csd_update *u = &r->job[i].update;

        u->src_off = slot_off(r, r->turn, i);
        u->dst_off = slot_off(r, r->turn + 1, i);
        u->src_crc = u->dst_crc;
        optim_scalars(&u->step, (enum optim_kind)r->bench->o->train.optimizer, 1e-4, 0.9, 0.999,
                      1e-8, 1, (uint64_t)r->turn + 1);
    }
    int rc = jobs_run(r, err);
    *rate = rig_bytes(r) / ((double)(clock_ns() - start_ns) * 1e-9);
    r->turn++;
    return rc;
}

int bench_update_path(struct bench *b, const struct disk_ops *disk, double *seconds,
                      struct err *err)
{
    struct rig       *r;
    double            unmeasured;
    int               rc = rig_open(&r, b, 1, disk, err);
    struct bench_item item = {.measure = rig_measure, .ctx = r};

    rc = rc ? rc : rig_measure(r, &unmeasured, err);
    rc = rc ? rc : bench_rounds(&item, 1, b->o->rounds, 0, err);
    if (!rc)
        *seconds = rig_bytes(r) / (double)(r->n_jobs * r->n_pad) / item.median;
    rig_close(r);
    return rc;
}

int bench_update_arithmetic(struct bench *b, double *seconds, struct err *err)
{
    return bench_update_path(b, &disk_null, seconds, err);
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
        n += (double)(s->rig->n_jobs * s->rig->n_pad);
    } while (!s->rc && !atomic_load(&s->stop));
    s->rate = n / ((double)(clock_ns() - start_ns) * 1e-9);
    return NULL;
}

int bench_beside_open(struct bench_beside **out, struct bench *b, struct err *err)
{
    struct bench_beside *s = *out = calloc(1, sizeof *s);

    return s ? rig_open(&s->rig, b, 1, disk_at((size_t)b->o->train.disk), err)
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

/* ---- the section ---- */

/* The things that take turns. Medians are shares of each other. */
enum { PATH, MIXED, BURSTS, ARITHMETIC, TURNS };
static const char *const turns[TURNS] = {"update path", "the disk, even mix", "the disk, bursts",
                                         "update path, null disk"};

/* Measures all items. A block device's turns are over before those of the disk begin, because both
 * use it. */
static int measure(struct bench *b, struct rig *r[2], struct bench_item items[TURNS],
                   struct err *err)
{
    struct bench_place *p = NULL;
    int                 alone = !r[0]->is_file;
    double              unmeasured;
    int                 rc = rig_measure(r[0], &unmeasured, err);

    items[PATH] = (struct bench_item){.measure = rig_measure, .ctx = r[0]};
    items[ARITHMETIC] = (struct bench_item){.measure = rig_measure, .ctx = r[1]};
    if (alone && !rc) {
        rc = bench_rounds(&items[PATH], 1, b->o->rounds, 0, err);
        rig_close(r[0]);
        r[0] = NULL;
    }
    rc = rc ? rc : bench_place_open(&p, b, 0, err);
    if (!rc) {
        items[MIXED] = bench_place_item(p, BENCH_MIXED);
        items[BURSTS] = bench_place_item(p, BENCH_BURSTS);
        rc = bench_rounds(items + alone, (size_t)(TURNS - alone), b->o->rounds, 0, err);
    }
    bench_place_close(p);
    return rc;
}

static int update_run(struct bench *b, json_t *section, struct err *err)
{
    struct rig       *r[2] = {NULL, NULL};
    struct bench_item items[TURNS] = {0};
    json_t           *rows = json_array();
    size_t            n = devices_there(b);
    int               rc = rig_open(&r[0], b, n, disk_at((size_t)b->o->train.disk), err);

    json_object_set_new(section, "rates", rows);
    rc = rc ? rc : rig_open(&r[1], b, n, &disk_null, err);
    if (!rc) {
        json_object_set_new(section, "subgroup_parameters", json_integer((json_int_t)r[0]->n_pad));
        json_object_set_new(section, "subgroups", json_integer((json_int_t)r[0]->n_jobs));
        json_object_set_new(section, "devices", json_integer((json_int_t)n));
        rc = measure(b, r, items, err);
    }
    for (int i = 0; i < TURNS && !rc; i++) {
        double rate = items[i].median, share = rate > 0 ? items[PATH].median / rate : 0;

        json_array_append_new(rows, json_pack("{s:s, s:f, s:f}", "what", turns[i],
                                              "bytes_per_second", rate, "update_path_share",
                                              share));
    }
    rig_close(r[0]);
    rig_close(r[1]);
    return rc;
}

static void update_print(const json_t *section)
{
    static const struct bench_column columns[] = {
        {"what", "update", NULL, 0}, {"bytes_per_second", "MB/s", "%.0f", 1e-6},
        {"update_path_share", "the path's share", "%.0f %%", 100}, {0}};
    const json_t *rows = json_object_get(section, "rates");

    printf("Update path, %.0f device(s) on one drive: %.0f subgroups of %.0f parameters read, "
           "updated, written back\n", json_num(section, "devices"), json_num(section, "subgroups"),
           json_num(section, "subgroup_parameters"));
    bench_table(rows, columns, NULL);
    printf("=> %.0f %% of what the disk moves with the same mix\n",
           100 * json_num(json_array_get(rows, MIXED), "update_path_share"));
}

const struct bench_section bench_update = {
    .name = "update", .run = update_run, .print = update_print};
