/* disk_sync.c: moves data with pread and pwrite on a small pool of threads, through the page cache.
 * This works everywhere, and is chosen with a notice if io_uring or O_DIRECT is forbidden. Each
 * worker moves the queue's next chunk. The queue's mutex guards everything that is not constant. */
#include "csd/disk/disk_file.h"
#include "csd/disk/disk_queue.h"
#include "data/file/file.h"

#include <fcntl.h>
#include <unistd.h>

enum { SYNC_THREADS = 4, FLUSH_CHUNK = 256 << 20 };

struct sync {
    struct disk_queue q;
    int               fd;
    off_t             bytes;
    unsigned          n_threads, n_alive;
    pthread_t         threads[SYNC_THREADS];
    pthread_cond_t    work; // wakes workers
    int               stop, abandoned; // abandoned: the last worker to return frees everything
};

/* Moves all of a chunk. 0 or -errno. */
static int chunk_move(int fd, const struct disk_chunk *p)
{
    int rc;

    do
        rc = p->r->op == DISK_READ ? file_pread(fd, p->buf, p->bytes, p->off, "", NULL)
                                   : file_pwrite(fd, p->buf, p->bytes, p->off, "", NULL);
    while (rc == -EAGAIN);
    return rc;
}

/* Flushes the page cache to the device, range after range: with a slow device and much to write,
 * each is a sign of life. An error that a range reports is not reported again by fdatasync, so it
 * counts. */
static int file_flush(struct sync *d)
{
    off_t end = d->bytes;

    for (off_t at = 0; at < end; at += FLUSH_CHUNK) {
        if (sync_file_range(d->fd, at, FLUSH_CHUNK,
                            SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                            SYNC_FILE_RANGE_WAIT_AFTER)) {
            if (errno == EIO || errno == ENOSPC || errno == EDQUOT)
                return -errno;
            break; // not supported here: fdatasync does it all
        }
        disk_count_moved(&d->q.base);
    }
    return fdatasync(d->fd) ? -errno : 0;
}

static void sync_free(struct sync *d)
{
    file_close(d->fd);
    pthread_cond_destroy(&d->work);
    disk_queue_release(&d->q);
    free(d);
}

static void *sync_worker(void *arg)
{
    struct sync      *d = arg;
    struct disk_chunk p;
    int               some;

    pthread_mutex_lock(&d->q.mutex);
    for (;;) {
        while (!(some = disk_queue_cut(&d->q, &p)) && !d->stop)
            pthread_cond_wait(&d->work, &d->q.mutex);
        if (!some)
            break;
        if (d->q.waiting.first)
            pthread_cond_signal(&d->work);
        pthread_mutex_unlock(&d->q.mutex);
        int rc = p.r->op == DISK_FLUSH ? file_flush(d) : chunk_move(d->fd, &p);
        pthread_mutex_lock(&d->q.mutex);
        if (disk_queue_landed(&d->q, p.r, p.bytes, rc))
            pthread_cond_signal(&d->q.news);
    }
    int last = --d->n_alive == 0 && d->abandoned;
    pthread_mutex_unlock(&d->q.mutex);
    if (last)
        sync_free(d);
    return NULL;
}

static void sync_close(struct disk *base)
{
    struct sync *d = (struct sync *)base;

    pthread_mutex_lock(&d->q.mutex);
    d->stop = 1;
    pthread_cond_broadcast(&d->work);
    pthread_mutex_unlock(&d->q.mutex);
    for (unsigned i = 0; i < d->n_threads; i++)
        pthread_join(d->threads[i], NULL);
    sync_free(d);
}

/* Leaves workers behind that are inside a call that does not return, with what they use. */
static void sync_abandon(struct disk *base)
{
    struct sync *d = (struct sync *)base;

    pthread_mutex_lock(&d->q.mutex);
    d->stop = d->abandoned = 1;
    while (list_pop(&d->q.waiting))
        ;
    for (unsigned i = 0; i < d->n_threads; i++)
        pthread_detach(d->threads[i]);
    pthread_cond_broadcast(&d->work);
    int last = d->n_alive == 0;
    pthread_mutex_unlock(&d->q.mutex);
    if (last)
        sync_free(d);
}

static int sync_open(struct disk **out, const struct disk_config *cfg, struct err *err)
{
    struct sync *d = calloc(1, sizeof *d);
    int          rc = 0;

    if (!d)
        return err_set(err, -ENOMEM, "no memory to open %s", cfg->path);
    disk_queue_init(&d->q, &disk_sync, cfg->depth);
    d->q.base.align = 512; // the page cache takes any; this keeps callers honest
    d->bytes = (off_t)cfg->bytes;
    pthread_cond_init(&d->work, NULL);
    d->fd = disk_file_open(cfg, 0, err);
    if (d->fd < 0) {
        rc = d->fd;
        sync_free(d);
        return rc;
    }
    pthread_mutex_lock(&d->q.mutex); // they count themselves out
    for (; d->n_threads < SYNC_THREADS && rc == 0; d->n_threads += rc == 0)
        rc = -pthread_create(&d->threads[d->n_threads], NULL, sync_worker, d);
    d->n_alive = d->n_threads;
    pthread_mutex_unlock(&d->q.mutex);
    if (d->n_threads > 0) { // fewer are enough
        *out = &d->q.base;
        return 0;
    }
    disk_file_undo(cfg);
    sync_free(d);
    return err_set(err, rc, "start a thread for %s: %s", cfg->path, strerror(-rc));
}

static int sync_submit(struct disk *base, struct disk_req *r)
{
    struct sync *d = (struct sync *)base;

    pthread_mutex_lock(&d->q.mutex);
    int rc = disk_queue_add(&d->q, r);
    pthread_cond_signal(&d->work);
    pthread_mutex_unlock(&d->q.mutex);
    return rc;
}

const struct disk_ops disk_sync = {
    .name = "sync", .threads = SYNC_THREADS, .open = sync_open, .submit = sync_submit,
    .reap = disk_queue_reap, .wake = disk_queue_wake, .close = sync_close, .abandon = sync_abandon,
};
