/* disk_queue.c: queues requests and cuts them into chunks, in turn. */
#include "csd/disk/disk_queue.h"

#include "data/base/bell.h"
#include "data/base/round.h"

void disk_queue_init(struct disk_queue *q, const struct disk_ops *ops, unsigned depth)
{
    *q = (struct disk_queue){.base.ops = ops, .depth = depth};
    list_init(&q->waiting, offsetof(struct disk_req, next));
    list_init(&q->done, offsetof(struct disk_req, next));
    pthread_mutex_init(&q->mutex, NULL);
    pthread_cond_init(&q->news, NULL);
}

void disk_queue_release(struct disk_queue *q)
{
    pthread_cond_destroy(&q->news);
    pthread_mutex_destroy(&q->mutex);
}

/* The number of units that a request has: its bytes, or 1 for a flush. */
static size_t total(const struct disk_req *r) { return r->op == DISK_FLUSH ? 1 : r->bytes; }

/* Whether nothing more of a request will be started. */
static int is_cut_up(const struct disk_req *r) { return r->cut == total(r) || r->status != 0; }

int disk_queue_add(struct disk_queue *q, struct disk_req *r)
{
    if (q->n_requests == q->depth)
        return -EAGAIN;
    q->n_requests++;
    r->status = 0;
    r->cut = r->through = 0;
    list_push(&q->waiting, r);
    return 0;
}

int disk_queue_cut(struct disk_queue *q, struct disk_chunk *p)
{
    struct disk_req *r = list_pop(&q->waiting);

    if (!r)
        return 0;
    *p = (struct disk_chunk){.r = r, .buf = r->op == DISK_FLUSH ? NULL : (char *)r->buf + r->cut,
                             .bytes = size_min(total(r) - r->cut, DISK_CHUNK),
                             .off = r->off + r->cut};
    r->cut += p->bytes;
    if (!is_cut_up(r))
        list_push(&q->waiting, r);
    return 1;
}

int disk_queue_landed(struct disk_queue *q, struct disk_req *r, size_t bytes, int status)
{
    disk_count_moved(&q->base);
    r->through += bytes;
    if (status && r->status == 0) {
        if (!is_cut_up(r))
            list_remove(&q->waiting, r);
        r->status = status;
    }
    if (r->through < r->cut || !is_cut_up(r))
        return 0;
    list_push(&q->done, r);
    return 1;
}

int disk_queue_take(struct disk_queue *q, struct disk_req **done, int max)
{
    int n = list_take(&q->done, done, max);

    q->n_requests -= (unsigned)n;
    return n;
}

int disk_queue_reap(struct disk *d, struct disk_req **done, int max, int64_t wait_ns)
{
    struct disk_queue *q = (struct disk_queue *)d;
    uint64_t           end = wait_ns ? bell_end((uint64_t)wait_ns) : 0; // -1: never
    int                rc = 0;

    pthread_mutex_lock(&q->mutex);
    while (!q->done.first && !q->woken && wait_ns != 0 && rc != ETIMEDOUT)
        rc = bell_cond_wait(&q->news, &q->mutex, end);
    if (wait_ns != 0)
        q->woken = 0;
    int n = disk_queue_take(q, done, max);
    pthread_mutex_unlock(&q->mutex);
    return n;
}

void disk_queue_wake(struct disk *d)
{
    struct disk_queue *q = (struct disk_queue *)d;

    pthread_mutex_lock(&q->mutex);
    q->woken = 1;
    pthread_cond_signal(&q->news);
    pthread_mutex_unlock(&q->mutex);
}

void disk_count_moved(struct disk *d) { __atomic_fetch_add(&d->moved, 1, __ATOMIC_RELAXED); }
