/* bench_place.c: the file or block device that disks are measured on, through csd/disk.h as the
 * devices do it (64 MiB in flight in pieces of 1 MiB), and by fio with the same pieces and depth.
 * The file is written once before anything is measured: what was never written is not read from the
 * disk. */
#include "cmd/bench/bench.h"

#include "csd/disk.h"
#include "data/base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REQUEST_BYTES = 4 << 20, REQUESTS = 16, DEPTH = 64, ALIGN = 4096 };

/* An update reads 16 bytes a parameter (states and gradient) and writes 14 (states and bf16). */
const struct bench_pattern bench_patterns[] = {
    [BENCH_READ] = {"read", "read", 1, 0, 0},
    [BENCH_WRITE] = {"write", "write", 0, 1, 0},
    [BENCH_MIXED] = {"update's mix, even", "rw", 16, 14, 0},
    [BENCH_BURSTS] = {"update's mix, bursts", NULL, 16, 14, 240 << 20},
    {0}};

struct bench_place {
    const struct bench *bench;
    char               *path;
    int                 is_file; // of ours
    struct disk        *disk;
    char               *memory;
    uint64_t            bytes;
    uint64_t            next[2]; // reads in one half, writes in the other, each in a circle
    int                 written; // the half that was written last: it is read next, as slots are
    struct disk_req     req[REQUESTS];
};

const char *bench_place_path(const struct bench_place *p)
{
    return p->path;
}

const char *bench_place_disk(const struct bench_place *p)
{
    return p->disk->ops->name;
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

int bench_place_run(struct bench_place *p, const struct bench_pattern *pattern, double *rate,
                    struct err *err)
{
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

int bench_place_flush(struct bench_place *p, double *seconds, struct err *err)
{
    struct disk_req *r = &p->req[0];
    uint64_t         start_ns = 0;

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

static double io_seconds(const json_t *io)
{
    return bench_number(io, "runtime") * 1e-3;
}

int bench_place_fio(struct bench_place *p, const struct bench_pattern *pattern, double *rate,
                    struct err *err)
{
    int           uring = !strcmp(bench_place_disk(p), "uring"), rc;
    char          file[4200], rw[32], size[48], amount[48];
    const json_t *job, *in, *out;
    json_t       *found = NULL;
    double        seconds;

    snprintf(file, sizeof file, "--filename=%s", p->path);
    snprintf(rw, sizeof rw, "--rw=%s", pattern->fio);
    snprintf(size, sizeof size, "--size=%llu", (unsigned long long)p->bytes);
    snprintf(amount, sizeof amount, "--io_size=%llu", (unsigned long long)p->bytes / 2);
    const char *argv[] = {"fio",
                          "--name=siTrain",
                          file,
                          rw,
                          size,
                          amount,
                          "--rwmixread=53",
                          "--bs=1M",
                          "--direct=1",
                          uring ? "--ioengine=io_uring" : "--ioengine=psync",
                          uring ? "--iodepth=64" : "--numjobs=16",
                          "--thread",
                          "--group_reporting",
                          "--fallocate=none",
                          "--output-format=json",
                          NULL};

    rc = bench_child(&found, (char *const *)(uintptr_t)argv, NULL, err);
    if (rc)
        return rc;
    job = json_array_get(json_object_get(found, "jobs"), 0);
    in = json_object_get(job, "read");
    out = json_object_get(job, "write");
    seconds = io_seconds(in) > io_seconds(out) ? io_seconds(in) : io_seconds(out);
    *rate =
        seconds > 0 ? (bench_number(in, "io_bytes") + bench_number(out, "io_bytes")) / seconds : 0;
    json_decref(found);
    return *rate > 0 ? 0 : err_set(err, -EIO, "fio on %s gave no figures", p->path);
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

int bench_place_open(struct bench_place **out, const struct bench *b, size_t device,
                     struct err *err)
{
    struct bench_place *p = calloc(1, sizeof *p);
    const char         *in = b->n_devices ? b->devices[device] : b->scratch;
    char                notice[512] = "";
    int                 rc;

    *out = NULL;
    if (!p)
        return err_set(err, -ENOMEM, "out of memory");
    p->bench = b;
    p->is_file = !bench_is_block(b, device);
    p->bytes = (uint64_t)(b->o->quick ? 128 : 1024) << 20;
    p->memory = aligned_alloc(ALIGN, (size_t)REQUESTS * REQUEST_BYTES);
    if (asprintf(&p->path, p->is_file ? "%s/disk" : "%s", in) < 0)
        p->path = NULL;
    if (!p->path || !p->memory) {
        rc = err_set(err, -ENOMEM, "out of memory for transfers");
    } else {
        struct iovec       buffers = {p->memory, (size_t)REQUESTS * REQUEST_BYTES};
        struct disk_config cfg = {.path = p->path,
                                  .bytes = p->bytes,
                                  .create = p->is_file,
                                  .depth = DEPTH,
                                  .buffers = &buffers,
                                  .n_buffers = 1};

        memset(p->memory, 0x5A, buffers.iov_len);
        for (size_t i = 0; i < REQUESTS; i++)
            p->req[i].buf = p->memory + i * REQUEST_BYTES;
        rc = disk_open(&p->disk, disk_name((size_t)b->o->train.disk), &cfg, notice, sizeof notice,
                       err);
    }
    if (!rc)
        rc = fill(p, err);
    if (rc)
        bench_place_close(p);
    else
        *out = p;
    return rc;
}

void bench_place_close(struct bench_place *p)
{
    if (!p)
        return;
    disk_close(p->disk);
    if (p->is_file && p->path)
        unlink(p->path);
    free(p->memory);
    free(p->path);
    free(p);
}
