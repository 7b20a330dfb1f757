/* bench_place.c: the file or block device that disks are measured on, through csd/disk.h as the
 * devices do it (64 MiB in flight in pieces of 1 MiB), and by fio with the same pieces and depth.
 * The file is written once before anything is measured: what was never written is not read from the
 * disk. */
#include "cmd/bench/bench.h"

#include "csd/disk.h"
#include "data/base/clock.h"
#include "data/base/file.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REQUEST_BYTES = 4 << 20, REQUESTS = 16, DEPTH = 64, ALIGN = 4096 };

/* How the place is used: reads and writes in parts of the mix; burst 0: both at once, else in turn
 * so many bytes at a time. An update reads 16 bytes a parameter (states and gradient) and writes 14
 * (states and bf16). fio: its word; NULL: it has none. */
static const struct pattern {
    const char *fio;
    unsigned    reads, writes;
    size_t      burst;
} patterns[BENCH_PATTERNS] = {[BENCH_READ] = {"read", 1, 0, 0},
                              [BENCH_WRITE] = {"write", 0, 1, 0},
                              [BENCH_MIXED] = {"rw", 16, 14, 0},
                              [BENCH_BURSTS] = {NULL, 16, 14, 240 << 20}};

const char *const bench_pattern_names[BENCH_PATTERNS] = {"read", "write", "update's mix, even",
                                                         "update's mix, bursts"};

struct pattern_run {
    struct bench_place   *place;
    const struct pattern *pattern;
};

struct bench_place {
    char              *path;
    int                is_file; // of ours
    struct disk       *disk;
    struct arena       memory;
    uint64_t           bytes;
    uint64_t           next[2]; // reads in one half, writes in the other, each in a circle
    int                written; // the half that was written last: it is read next, as slots are
    char               no_fio[1024];
    struct disk_req    req[REQUESTS];
    struct pattern_run run[BENCH_PATTERNS];
};

const char *bench_place_path(const struct bench_place *p)
{
    return p->path;
}

const char *bench_place_disk(const struct bench_place *p)
{
    return p->disk->ops->name;
}

const char *bench_place_no_fio(const struct bench_place *p)
{
    return p->no_fio;
}

/* ---- transfers ---- */

static int wait_one(struct bench_place *p, struct disk_req **r, struct err *err)
{
    int n = disk_reap(p->disk, r, 1, -1);

    if (n < 0 || (n > 0 && (*r)->status))
        return err_set(err, n < 0 ? n : (*r)->status, "%s: %s", p->path,
                       strerror(n < 0 ? -n : -(*r)->status));
    return n;
}

static int start(struct bench_place *p, struct disk_req *r, enum disk_op op, struct err *err)
{
    uint64_t half = p->bytes / 2, *next = &p->next[op == DISK_WRITE];
    int      rc;

    r->op = op;
    r->bytes = REQUEST_BYTES;
    r->off = *next + ((op == DISK_WRITE) != p->written ? half : 0);
    *next = (*next + REQUEST_BYTES) % half;
    rc = disk_submit(p->disk, r);
    return rc ? err_set(err, rc, "%s: %s", p->path, strerror(-rc)) : 0;
}

/* Move so many bytes each way, mixed evenly, as many at once as REQUESTS; all of it is over on
 * return. */
static int move(struct bench_place *p, uint64_t reads, uint64_t writes, struct err *err)
{
    uint64_t         done[2] = {0}, want[2] = {reads / REQUEST_BYTES, writes / REQUEST_BYTES};
    struct disk_req *idle[REQUESTS];
    size_t           n_idle = REQUESTS;
    int              rc = 0;

    for (size_t i = 0; i < REQUESTS; i++)
        idle[i] = &p->req[i];
    while (done[0] + done[1] < want[0] + want[1] || n_idle < REQUESTS) {
        int op = done[0] * want[1] > done[1] * want[0] || done[0] == want[0];

        if (n_idle > 0 && done[0] + done[1] < want[0] + want[1]) {
            rc = start(p, idle[--n_idle], op ? DISK_WRITE : DISK_READ, err);
            done[op]++;
        } else {
            rc = wait_one(p, &idle[n_idle], err);
            n_idle += rc > 0;
        }
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int pattern_measure(void *ctx, double *rate, struct err *err)
{
    struct bench_place   *p = ((struct pattern_run *)ctx)->place;
    const struct pattern *pattern = ((struct pattern_run *)ctx)->pattern;
    uint64_t amount = p->bytes / 2, parts = pattern->reads + pattern->writes, moved = 0,
             start_ns = clock_ns();
    int rc = 0;

    for (uint64_t burst; moved < amount && !rc; moved += burst) {
        burst = pattern->burst && pattern->burst < amount ? pattern->burst : amount;
        uint64_t reads = burst / parts * pattern->reads, writes = burst / parts * pattern->writes;

        rc = move(p, reads, pattern->burst ? 0 : writes, err);
        if (!rc && pattern->burst)
            rc = move(p, 0, writes, err);
        burst = reads / REQUEST_BYTES * REQUEST_BYTES + writes / REQUEST_BYTES * REQUEST_BYTES;
    }
    *rate = (double)moved / ((double)(clock_ns() - start_ns) * 1e-9);
    if (pattern->writes)
        p->written = !p->written;
    return rc;
}

int bench_place_flush(void *place, double *seconds, struct err *err)
{
    struct bench_place *p = place;
    struct disk_req    *r = &p->req[0];
    uint64_t            start_ns = 0;

    for (int op = DISK_WRITE; op <= DISK_FLUSH; op++) {
        int rc;

        r->op = (enum disk_op)op;
        r->bytes = ALIGN;
        r->off = 0;
        start_ns = clock_ns();
        rc = disk_submit(p->disk, r);
        while (!rc && !(rc = wait_one(p, &r, err)))
            ;
        if (rc < 0)
            return rc;
    }
    *seconds = (double)(clock_ns() - start_ns) * 1e-9;
    return 0;
}

/* ---- fio ---- */

static int fio_run(struct bench_place *p, const struct pattern *pattern, double *rate,
                   struct err *err)
{
    int               uring = !strcmp(bench_place_disk(p), "uring"), rc;
    struct bench_args a = {0};
    const json_t     *job, *in, *out;
    json_t           *found = NULL;
    double            ms;

    for (const char *const *word = (const char *const[]){"fio", "--name=siTrain", "--rwmixread=53",
                                                         "--bs=1M", "--direct=1", "--thread",
                                                         "--group_reporting", "--fallocate=none",
                                                         "--output-format=json", NULL};
         *word; word++)
        bench_arg(&a, "%s", *word);
    bench_arg(&a, "--filename=%s", p->path);
    bench_arg(&a, "--rw=%s", pattern->fio);
    bench_arg(&a, "--size=%" PRIu64, p->bytes);
    bench_arg(&a, "--io_size=%" PRIu64, p->bytes / 2);
    bench_arg(&a, "--ioengine=%s", uring ? "io_uring" : "psync");
    bench_arg(&a, uring ? "--iodepth=64" : "--numjobs=16");
    rc = bench_child(&found, &a, NULL, err);
    if (rc)
        return rc;
    job = json_array_get(json_object_get(found, "jobs"), 0);
    in = json_object_get(job, "read");
    out = json_object_get(job, "write");
    ms = fmax(bench_number(in, "runtime"), bench_number(out, "runtime"));
    *rate = ms > 0 ? (bench_number(in, "io_bytes") + bench_number(out, "io_bytes")) / (1e-3 * ms)
                   : 0;
    json_decref(found);
    return *rate > 0 ? 0 : err_set(err, -EIO, "fio on %s gave no figures", p->path);
}

/* Without it the rest stands. */
static int fio_measure(void *ctx, double *rate, struct err *err)
{
    const struct pattern_run *r = ctx;
    struct bench_place       *p = r->place;
    struct err                why = {0};
    int                       rc;

    (void)err;
    if (!*p->no_fio && r->pattern->fio) {
        rc = fio_run(p, r->pattern, rate, &why);
        if (rc)
            snprintf(p->no_fio, sizeof p->no_fio, "%s", rc == -ENOENT ? "not installed" : why.text);
    }
    return *p->no_fio || !r->pattern->fio;
}

struct bench_item bench_place_item(struct bench_place *p, int pattern, int fio)
{
    p->run[pattern] = (struct pattern_run){p, &patterns[pattern]};
    return (struct bench_item){.name = bench_pattern_names[pattern],
                               .measure = fio ? fio_measure : pattern_measure,
                               .ctx = &p->run[pattern]};
}

/* ---- opening ---- */

/* Both halves. */
static int fill(struct bench_place *p, struct err *err)
{
    int rc = 0;

    for (int i = 0; i < 2 && !rc; i++) {
        rc = move(p, 0, p->bytes / 2, err);
        p->written = !p->written;
    }
    return rc;
}

static int place_open(struct bench_place *p, const struct bench *b, const char *in,
                      struct err *err)
{
    struct disk_config cfg = {.bytes = p->bytes, .create = p->is_file, .depth = DEPTH,
                              .n_buffers = 1};
    struct iovec       buffers;
    char               notice[512], *memory;
    int                rc;

    p->path = file_path(err, p->is_file ? "%s/disk" : "%s", in);
    if (!p->path)
        return -ENOMEM;
    arena_take(&p->memory, (size_t)REQUESTS * REQUEST_BYTES);
    rc = arena_map(&p->memory, "transfers", err);
    if (rc)
        return rc;
    memory = memset(p->memory.base, 0x5A, p->memory.bytes);
    buffers = (struct iovec){memory, p->memory.bytes};
    cfg.path = p->path;
    cfg.buffers = &buffers;
    for (size_t i = 0; i < REQUESTS; i++)
        p->req[i].buf = memory + i * REQUEST_BYTES;
    rc = disk_open(&p->disk, disk_name((size_t)b->o->train.disk), &cfg, notice, sizeof notice, err);
    return rc ? rc : fill(p, err);
}

int bench_place_open(struct bench_place **out, const struct bench *b, size_t device,
                     struct err *err)
{
    struct bench_place *p = calloc(1, sizeof *p);
    int                 rc;

    *out = p;
    if (!p)
        return err_set(err, -ENOMEM, "out of memory");
    p->is_file = !bench_is_block(b, device);
    p->bytes = (uint64_t)(b->o->quick ? 128 : 1024) << 20;
    p->memory.align = ARENA_IO;
    rc = place_open(p, b, b->n_devices ? b->devices[device] : b->scratch, err);
    if (rc) {
        bench_place_close(p);
        *out = NULL;
    }
    return rc;
}

void bench_place_close(struct bench_place *p)
{
    if (!p)
        return;
    disk_close(p->disk);
    if (p->is_file && p->path)
        unlink(p->path);
    arena_free(&p->memory);
    free(p->path);
    free(p);
}
