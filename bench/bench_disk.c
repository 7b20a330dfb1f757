/* bench_disk.c: measures each device's disk: reads, writes, the update's mix, and a flush.
 *
 * A place is the file or block device that is measured, through csd/disk/disk.h as devices use it
 * (64 MiB in flight in pieces of 1 MiB). The file is first written once: what was never written is
 * not read from the disk. */
#include "bench/bench.h"

#include "csd/disk/disk.h"
#include "data/base/clock.h"

#include <unistd.h>

enum { REQUEST_BYTES = 4 << 20, REQUESTS = 16, DEPTH = 64, ALIGN = 4096, FLUSHES = 20 };

/* An update reads 16 bytes per parameter (states and gradient) and writes 14 (states and bf16). */
static const struct pattern {
    const char *name;
    unsigned    reads, writes;
} patterns[BENCH_PATTERNS] = {[BENCH_READ] = {"read", 1, 0},
                              [BENCH_WRITE] = {"write", 0, 1},
                              [BENCH_MIXED] = {"update's mix", 16, 14}};

struct pattern_run {
    struct bench_place   *place;
    const struct pattern *pattern;
};

struct bench_place {
    char              *path;
    int                is_file; // a file that we made
    struct disk       *disk;
    struct arena       memory;
    uint64_t           bytes;
    uint64_t           next[2]; // reads use one half, writes the other, each in a circle
    int                written; // the half written last: it is read next, as slots are
    struct disk_req    req[REQUESTS];
    struct pattern_run run[BENCH_PATTERNS];
};

/* ---- transfers ---- */

/* Waits for a transfer to end. 1: one has; 0: none yet. */
static int wait_one(struct bench_place *p, struct disk_req **r, struct err *err)
{
    int n = disk_reap(p->disk, r, 1, -1);

    if (n > 0 && (*r)->status)
        n = (*r)->status;
    return n < 0 ? err_set(err, n, "%s: %s", p->path, strerror(-n)) : n;
}

static int start(struct bench_place *p, struct disk_req *r, enum disk_op op, struct err *err)
{
    uint64_t half = p->bytes / 2, *next = &p->next[op == DISK_WRITE];

    r->op = op;
    r->bytes = REQUEST_BYTES;
    r->off = *next + ((op == DISK_WRITE) != p->written ? half : 0);
    *next = (*next + REQUEST_BYTES) % half;
    int rc = disk_submit(p->disk, r);
    return rc ? err_set(err, rc, "%s: %s", p->path, strerror(-rc)) : 0;
}

/* Moves so many bytes each way, mixed evenly, with REQUESTS at a time. Waits for all. */
static int move(struct bench_place *p, uint64_t reads, uint64_t writes, struct err *err)
{
    uint64_t         done[2] = {0}, want[2] = {reads / REQUEST_BYTES, writes / REQUEST_BYTES};
    struct disk_req *idle[REQUESTS];
    size_t           n_idle = REQUESTS;
    int              rc = 0;

    for (size_t i = 0; i < REQUESTS; i++)
        idle[i] = &p->req[i];
    while (rc >= 0 && (done[0] + done[1] < want[0] + want[1] || n_idle < REQUESTS)) {
        int op = done[0] * want[1] > done[1] * want[0] || done[0] == want[0];

        if (n_idle > 0 && done[0] + done[1] < want[0] + want[1]) {
            rc = start(p, idle[--n_idle], op ? DISK_WRITE : DISK_READ, err);
            done[op]++;
        } else {
            rc = wait_one(p, &idle[n_idle], err);
            n_idle += rc > 0;
        }
    }
    return rc < 0 ? rc : 0;
}

static int pattern_measure(void *ctx, double *rate, struct err *err)
{
    struct bench_place   *p = ((struct pattern_run *)ctx)->place;
    const struct pattern *pattern = ((struct pattern_run *)ctx)->pattern;
    uint64_t part = p->bytes / 2 / (pattern->reads + pattern->writes), start_ns = clock_ns(),
             reads = part * pattern->reads / REQUEST_BYTES * REQUEST_BYTES,
             writes = part * pattern->writes / REQUEST_BYTES * REQUEST_BYTES, moved = 0;
    int rc = 0;

    for (; moved < p->bytes / 2 && !rc; moved += reads + writes)
        rc = move(p, reads, writes, err);
    *rate = (double)moved / ((double)(clock_ns() - start_ns) * 1e-9);
    if (pattern->writes)
        p->written = !p->written;
    return rc;
}

static int flush_measure(void *ctx, double *seconds, struct err *err)
{
    struct bench_place *p = ctx;
    struct disk_req    *r = &p->req[0];
    uint64_t            start_ns = 0;

    for (int op = DISK_WRITE, rc; op <= DISK_FLUSH; op++) {
        r->op = (enum disk_op)op;
        r->bytes = ALIGN;
        r->off = 0;
        start_ns = clock_ns();
        rc = disk_submit(p->disk, r);
        while (!rc)
            rc = wait_one(p, &r, err);
        if (rc < 0)
            return rc;
    }
    *seconds = (double)(clock_ns() - start_ns) * 1e-9;
    return 0;
}

/* ---- the place ---- */

int bench_place_open(struct bench_place **out, const struct bench *b, size_t device,
                     struct err *err)
{
    struct bench_place *p = *out = calloc(1, sizeof *p);
    char                notice[512];

    if (!p || !(p->path = bench_file(b, device, "disk")))
        return err_set(err, -ENOMEM, "out of memory for transfers");
    p->is_file = !bench_is_block(b, device);
    p->bytes = (uint64_t)(b->o->quick ? 128 : 1024) << 20;
    p->memory.align = ARENA_IO;
    arena_take(&p->memory, (size_t)REQUESTS * REQUEST_BYTES);
    int rc = arena_map(&p->memory, "transfers", err);
    if (rc)
        return rc;
    memset(p->memory.base, 0x5A, p->memory.bytes);
    for (size_t i = 0; i < REQUESTS; i++)
        p->req[i].buf = p->memory.base + i * REQUEST_BYTES;
    struct iovec       buffers = {p->memory.base, p->memory.bytes};
    struct disk_config cfg = {.path = p->path, .bytes = p->bytes, .create = p->is_file,
                              .depth = DEPTH, .buffers = &buffers, .n_buffers = 1};
    rc = disk_open(&p->disk, disk_at((size_t)b->o->train.disk), &cfg, notice, sizeof notice, err);
    rc = rc ? rc : bench_device_ask(b, device, err);
    for (int half = 0; half < 2 && !rc; half++) {
        rc = move(p, 0, p->bytes / 2, err);
        p->written = !p->written;
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

struct bench_item bench_place_item(struct bench_place *p, int pattern)
{
    p->run[pattern] = (struct pattern_run){p, &patterns[pattern]};
    return (struct bench_item){.measure = pattern_measure, .ctx = &p->run[pattern]};
}

/* ---- the section ---- */

static int measure(struct bench *b, struct bench_place *p, json_t *section, struct err *err)
{
    struct bench_item items[BENCH_PATTERNS], flush = {.measure = flush_measure, .ctx = p};
    json_t           *rows = json_array();

    json_object_set_new(section, "path", json_string(p->path));
    json_object_set_new(section, "disk", json_string(p->disk->ops->name));
    json_object_set_new(section, "patterns", rows);
    for (int i = 0; i < BENCH_PATTERNS; i++)
        items[i] = bench_place_item(p, i);
    int rc = bench_rounds(items, BENCH_PATTERNS, b->o->rounds, 0, err);
    rc = rc ? rc : bench_rounds(&flush, 1, FLUSHES, 0, err);
    for (int i = 0; i < BENCH_PATTERNS && !rc; i++)
        json_array_append_new(rows, json_pack("{s:s, s:f}", "pattern", patterns[i].name,
                                              "bytes_per_second", items[i].median));
    bench_put(section, "flush_seconds", flush.median);
    return rc;
}

static int disk_run(struct bench *b, json_t *rows, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < (b->n_devices ? b->n_devices : 1) && !rc; i++) {
        struct bench_place *p;
        json_t             *section = json_object();

        json_array_append_new(rows, section);
        rc = bench_place_open(&p, b, i, err);
        rc = rc ? rc : measure(b, p, section, err);
        bench_place_close(p);
    }
    return rc;
}

static void disk_print(const json_t *rows)
{
    static const struct bench_column columns[] = {
        {"pattern", "disk", NULL, 0}, {"bytes_per_second", "MB/s", "%.0f", 1e-6},
        {0}};
    const json_t *section;
    size_t        i;

    json_array_foreach(rows, i, section) {
        printf("%sDisk under a device (%s, pieces of 1 MiB, 64 in flight; reads and writes "
               "together)\n", i ? "\n" : "", json_str(section, "disk"));
        bench_table(json_object_get(section, "patterns"), columns, NULL);
        printf("=> a flush takes %.2f ms\n", 1e3 * json_num(section, "flush_seconds"));
    }
}

const struct bench_section bench_disk = {
    .name = "disk", .is_rows = 1, .run = disk_run, .print = disk_print};
