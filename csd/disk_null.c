/* disk_null.c: a disk that answers at once and stores nothing, to measure everything else. */
#include "csd/disk.h"
#include "csd/disk_file.h"
#include "data/base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct null {
    struct disk      base;
    struct disk_list done;
    pthread_mutex_t  mutex; // over woken
    pthread_cond_t   cond;
    int              woken;
};

static int null_open(struct disk **out, const struct disk_config *cfg, struct err *err)
{
    struct null       *d = calloc(1, sizeof *d);
    pthread_condattr_t attr;

    if (!d)
        return err_set(err, -ENOMEM, "no memory for the null disk of %s", cfg->path);
    d->base = (struct disk){&disk_null, 512, 0};
    disk_list_init(&d->done);
    pthread_mutex_init(&d->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&d->cond, &attr);
    pthread_condattr_destroy(&attr);
    *out = &d->base;
    return 0;
}

static int null_submit(struct disk *base, struct disk_req *r)
{
    struct null *d = (struct null *)base;

    r->status = 0;
    disk_list_push(&d->done, r);
    return 0;
}

static int null_reap(struct disk *base, struct disk_req **done, int max, int64_t wait_ns)
{
    struct null    *d = (struct null *)base;
    int             n = disk_list_take(&d->done, done, max), rc = 0;
    uint64_t        end = clock_ns() + (wait_ns > 0 ? (uint64_t)wait_ns : 0);
    struct timespec ts = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};

    if (n > 0 || wait_ns == 0)
        return n;
    pthread_mutex_lock(&d->mutex);
    while (!d->woken && rc == 0)
        rc = wait_ns < 0 ? pthread_cond_wait(&d->cond, &d->mutex)
                         : pthread_cond_timedwait(&d->cond, &d->mutex, &ts);
    d->woken = 0;
    pthread_mutex_unlock(&d->mutex);
    return 0;
}

static void null_wake(struct disk *base)
{
    struct null *d = (struct null *)base;

    pthread_mutex_lock(&d->mutex);
    d->woken = 1;
    pthread_cond_signal(&d->cond);
    pthread_mutex_unlock(&d->mutex);
}

static void null_close(struct disk *base)
{
    struct null *d = (struct null *)base;

    pthread_cond_destroy(&d->cond);
    pthread_mutex_destroy(&d->mutex);
    free(d);
}

const struct disk_ops disk_null = {.name = "null",
                                   .open = null_open,
                                   .submit = null_submit,
                                   .reap = null_reap,
                                   .wake = null_wake,
                                   .close = null_close};
