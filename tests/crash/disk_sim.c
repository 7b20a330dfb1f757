/* disk_sim.c: struct disk_ops over storage.h. */
#include "tests/crash/disk_sim.h"

#include "csd/disk/disk.h"
#include "data/base/list.h"
#include "tests/crash/power.h"
#include "tests/crash/storage.h"
#include "tests/crash/threads.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 96 };

struct flight {
    struct disk_req *r;
    uint64_t         id;
}; // of a write; of a flush: when it started

struct sim {
    struct disk      base;
    int              file;
    unsigned         depth, n; // n in flight
    struct flight    flights[DEPTH];
    struct list      done;
    unsigned         n_done;
    int              woken;
};

/* As the disks of real files do it (disk.c): all of the file, then its name. */
static int sim_create(const struct disk_config *cfg, struct err *err)
{
    char dir[96];
    int  file = storage_create(cfg->path, 0);

    if (file < 0)
        return err_set(err, file, "create %s: %s", cfg->path, strerror(-file));
    snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(cfg->path, '/') - cfg->path), cfg->path);
    if (storage_resize(file, cfg->bytes) || storage_sync_folder(dir))
        return err_set(err, -EIO, "allocate %s: %s", cfg->path, strerror(EIO));
    return file;
}

static int sim_open(struct disk **out, const struct disk_config *cfg, struct err *err)
{
    int         file = cfg->create ? sim_create(cfg, err) : storage_find(cfg->path);
    struct sim *d;

    if (file < 0)
        return cfg->create ? file : err_set(err, file, "open %s: %s", cfg->path, strerror(-file));
    if (cfg->keep && storage_size(file) < cfg->bytes && storage_resize(file, cfg->bytes))
        return err_set(err, -EIO, "allocate %s: %s", cfg->path, strerror(EIO));
    if (storage_size(file) < cfg->bytes)
        return err_set(err, -EINVAL, "%s is %llu bytes, this run needs %llu", cfg->path,
                       (unsigned long long)storage_size(file), (unsigned long long)cfg->bytes);
    d = calloc(1, sizeof *d);
    assert(d && cfg->depth <= DEPTH);
    d->base = (struct disk){ .ops = &disk_sim, .align = 4096 };
    d->file = file;
    d->depth = cfg->depth;
    list_init(&d->done, offsetof(struct disk_req, next));
    *out = &d->base;
    return 0;
}

static void finish(struct sim *d, struct disk_req *r, int status)
{
    r->status = status;
    list_push(&d->done, r);
    d->n_done++;
}

static int sim_submit(struct disk *base, struct disk_req *r)
{
    struct sim   *d = (struct sim *)base;
    struct flight f = { .r = r };
    int           rc = power_is_cut() ? -EIO : 0;

    if (d->n + d->n_done >= d->depth)
        return -EAGAIN;
    assert(r->bytes % d->base.align == 0 && r->off % d->base.align == 0 &&
           (uintptr_t)r->buf % d->base.align == 0);
    if (rc == 0 && r->op == DISK_WRITE)
        rc = storage_write_start(d->file, r->buf, r->bytes, r->off, &f.id);
    else if (r->op == DISK_FLUSH)
        f.id = storage_flush_start();
    if (rc)
        finish(d, r, rc);
    else
        d->flights[d->n++] = f;
    return 0;
}

/* One of those in flight, drawn by the seed, ends. */
static void land(struct sim *d)
{
    size_t        i = threads_roll(d->n);
    struct flight f = d->flights[i];
    int           rc = power_is_cut() ? -EIO : 0;

    d->flights[i] = d->flights[--d->n];
    f.r->cut = f.id;
    if (!rc && f.r->op == DISK_FLUSH)
        rc = storage_flush_end(d->file, f.id);
    else if (!rc && f.r->op == DISK_READ &&
             storage_read(d->file, f.r->buf, f.r->bytes, f.r->off) < f.r->bytes)
        rc = -EIO;
    finish(d, f.r, rc);
}

static int sim_reap(struct disk *base, struct disk_req **done, int max, int64_t wait_ns)
{
    struct sim *d = (struct sim *)base;
    uint64_t    end = wait_ns < 0 ? UINT64_MAX : threads_now() + (uint64_t)wait_ns;
    int         n;

    threads_yield();
    while (d->n > 0 && threads_roll(2))
        land(d);
    if (wait_ns != 0 && d->n_done == 0 && d->n > 0)
        land(d);
    while (wait_ns != 0 && d->n_done == 0 && !d->woken && threads_wait(d, end))
        ;
    if (wait_ns != 0)
        d->woken = 0;
    n = list_take(&d->done, done, max);
    d->n_done -= (unsigned)n;
    for (int i = 0; i < n; i++) // a flush covers what was reaped
        if (done[i]->op == DISK_WRITE && done[i]->status == 0)
            storage_write_end(d->file, done[i]->cut);
    return n;
}

static void sim_wake(struct disk *base)
{
    ((struct sim *)base)->woken = 1;
    threads_wake(base, 1);
}

static void sim_close(struct disk *base)
{
    free(base);
}

const struct disk_ops disk_sim = {
    .name = "sim",
    .open = sim_open,
    .submit = sim_submit,
    .reap = sim_reap,
    .wake = sim_wake,
    .close = sim_close,
    .abandon = sim_close,
};
