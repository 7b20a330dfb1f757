/* disk_sync.c: pread and pwrite on a small pool of threads, through the page cache: what works
 * everywhere, chosen with a notice where io_uring or O_DIRECT is forbidden.
 *
 * A worker takes the first request of the queue, cuts one piece off it, puts the rest back at the
 * end and moves the piece: large requests are moved by all workers together, and small ones do not
 * wait behind them. All fields below `mutex` are under it. */
#include "csd/disk.h"
#include "csd/disk_file.h"
#include "data/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SYNC_THREADS = 4, FLUSH_PIECE = 256 << 20 };

struct sync {
    struct disk      base;
    int              fd;
    off_t            bytes;
    unsigned         depth, n_threads, n_alive;
    pthread_t        threads[SYNC_THREADS];
    pthread_mutex_t  mutex;
    pthread_cond_t   work, news; // for the workers; for the owner
    struct disk_list queue, done;
    unsigned         n_requests; // submitted and not yet reaped
    int              woken, stop, abandoned; // abandoned: the last worker to come back frees it all
};

/* Move all of buf[0..bytes); 0 or -errno. */
static int piece_move(int fd, enum disk_op op, char *buf, size_t bytes, uint64_t off)
{
    while (bytes > 0) {
        ssize_t n = op == DISK_READ ? pread(fd, buf, bytes, (off_t)off)
                                    : pwrite(fd, buf, bytes, (off_t)off);

        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        buf += n;
        off += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return 0;
}

/* Everything from the page cache to the device, range after range: with a slow device and much to
 * write each is a sign of life. What a range reports is not reported again by fdatasync, so it
 * counts. */
static int file_flush(struct sync *d)
{
    off_t end = d->bytes;

    for (off_t at = 0; at < end; at += FLUSH_PIECE) {
        if (sync_file_range(d->fd, at, FLUSH_PIECE,
                            SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                            SYNC_FILE_RANGE_WAIT_AFTER)) {
            if (errno == EIO || errno == ENOSPC || errno == EDQUOT)
                return -errno;
            break; // not known here: fdatasync does it all
        }
        disk_count_moved(&d->base);
    }
    return fdatasync(d->fd) ? -errno : 0;
}

/* One piece of request r, called and returning with the mutex held. */
static void piece_run(struct sync *d, struct disk_req *r)
{
    size_t at = r->cut, left = disk_req_total(r) - at,
           bytes = left < DISK_PIECE ? left : DISK_PIECE;
    int    rc;

    r->cut += bytes;
    if (!disk_req_cut_up(r)) {
        disk_list_push(&d->queue, r);
        pthread_cond_signal(&d->work);
    }
    pthread_mutex_unlock(&d->mutex);
    if (r->op == DISK_FLUSH)
        rc = file_flush(d);
    else
        rc = piece_move(d->fd, r->op, (char *)r->buf + at, bytes, r->off + at);
    disk_count_moved(&d->base);
    pthread_mutex_lock(&d->mutex);
    r->through += bytes;
    if (rc && r->status == 0) {
        if (!disk_req_cut_up(r))
            disk_list_remove(&d->queue, r);
        r->status = rc;
    }
}

static void sync_free(struct sync *d)
{
    if (d->fd >= 0)
        close(d->fd);
    pthread_cond_destroy(&d->news);
    pthread_cond_destroy(&d->work);
    pthread_mutex_destroy(&d->mutex);
    free(d);
}

static void *sync_worker(void *arg)
{
    struct sync     *d = arg;
    struct disk_req *r;
    int              last;

    pthread_mutex_lock(&d->mutex);
    for (;;) {
        while (!(r = disk_list_pop(&d->queue)) && !d->stop)
            pthread_cond_wait(&d->work, &d->mutex);
        if (!r)
            break;
        piece_run(d, r);
        if (disk_req_over(r)) {
            disk_list_push(&d->done, r);
            pthread_cond_signal(&d->news);
        }
    }
    last = --d->n_alive == 0 && d->abandoned;
    pthread_mutex_unlock(&d->mutex);
    if (last)
        sync_free(d);
    return NULL;
}

static void sync_close(struct disk *base)
{
    struct sync *d = (struct sync *)base;

    pthread_mutex_lock(&d->mutex);
    d->stop = 1;
    pthread_cond_broadcast(&d->work);
    pthread_mutex_unlock(&d->mutex);
    for (unsigned i = 0; i < d->n_threads; i++)
        pthread_join(d->threads[i], NULL);
    sync_free(d);
}

/* Workers inside a call that does not return are left behind, with what they work on. */
static void sync_abandon(struct disk *base)
{
    struct sync *d = (struct sync *)base;
    int          last;

    pthread_mutex_lock(&d->mutex);
    d->stop = d->abandoned = 1;
    while (disk_list_pop(&d->queue))
        ;
    for (unsigned i = 0; i < d->n_threads; i++)
        pthread_detach(d->threads[i]);
    pthread_cond_broadcast(&d->work);
    last = d->n_alive == 0;
    pthread_mutex_unlock(&d->mutex);
    if (last)
        sync_free(d);
}

static struct sync *sync_new(const struct disk_config *cfg)
{
    struct sync       *d = calloc(1, sizeof *d);
    pthread_condattr_t attr;

    if (!d)
        return NULL;
    d->base = (struct disk){ &disk_sync, 512, 0 }; // the page cache takes anything; this keeps
                                                   // callers honest
    d->bytes = (off_t)cfg->bytes;
    d->depth = cfg->depth;
    disk_list_init(&d->queue);
    disk_list_init(&d->done);
    pthread_mutex_init(&d->mutex, NULL);
    pthread_cond_init(&d->work, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&d->news, &attr);
    pthread_condattr_destroy(&attr);
    return d;
}

static int sync_open(struct disk **out, const struct disk_config *cfg, struct err *err)
{
    struct sync *d = sync_new(cfg);
    int          rc = 0;

    if (!d)
        return err_set(err, -ENOMEM, "no memory to open %s", cfg->path);
    d->fd = disk_file_open(cfg, 0, err);
    if (d->fd < 0) {
        rc = d->fd;
    } else {
        pthread_mutex_lock(&d->mutex); // they count themselves out
        for (; d->n_threads < SYNC_THREADS && rc == 0; d->n_threads += rc == 0)
            rc = -pthread_create(&d->threads[d->n_threads], NULL, sync_worker, d);
        d->n_alive = d->n_threads;
        pthread_mutex_unlock(&d->mutex);
        if (rc && d->n_threads > 0)
            rc = 0; // fewer will do
        if (rc)
            err_set(err, rc, "start a thread for %s: %s", cfg->path, strerror(-rc));
    }
    if (rc) {
        if (d->fd >= 0)
            disk_file_undo(cfg);
        sync_close(&d->base);
        return rc;
    }
    *out = &d->base;
    return 0;
}

static int sync_submit(struct disk *base, struct disk_req *r)
{
    struct sync *d = (struct sync *)base;
    int          rc = -EAGAIN;

    pthread_mutex_lock(&d->mutex);
    if (d->n_requests < d->depth) {
        r->status = 0;
        r->cut = r->through = 0;
        disk_list_push(&d->queue, r);
        d->n_requests++;
        pthread_cond_signal(&d->work);
        rc = 0;
    }
    pthread_mutex_unlock(&d->mutex);
    return rc;
}

static int sync_reap(struct disk *base, struct disk_req **done, int max, int64_t wait_ns)
{
    struct sync    *d = (struct sync *)base;
    uint64_t        end = clock_ns() + (wait_ns > 0 ? (uint64_t)wait_ns : 0);
    struct timespec ts = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
    int             n, rc = 0;

    pthread_mutex_lock(&d->mutex);
    while (!d->done.first && !d->woken && wait_ns != 0 && rc == 0)
        rc = wait_ns < 0 ? pthread_cond_wait(&d->news, &d->mutex)
                         : pthread_cond_timedwait(&d->news, &d->mutex, &ts);
    if (wait_ns != 0)
        d->woken = 0;
    n = disk_list_take(&d->done, done, max);
    d->n_requests -= (unsigned)n;
    pthread_mutex_unlock(&d->mutex);
    return n;
}

static void sync_wake(struct disk *base)
{
    struct sync *d = (struct sync *)base;

    pthread_mutex_lock(&d->mutex);
    d->woken = 1;
    pthread_cond_signal(&d->news);
    pthread_mutex_unlock(&d->mutex);
}

const struct disk_ops disk_sync = {.name = "sync",
                                   .open = sync_open,
                                   .submit = sync_submit,
                                   .reap = sync_reap,
                                   .wake = sync_wake,
                                   .close = sync_close,
                                   .abandon = sync_abandon};
