/* disk_queue.h: the requests of a disk, and how its owner waits for them; the first member of every
 * backend.
 *
 * A request is in `waiting` until all of it is cut into chunks, or a chunk failed. When its chunks
 * have come back it is in `done`, until it is reaped. After each chunk the rest of a request goes
 * to the end of `waiting`, so that large requests advance together and a small one does not wait
 * behind them.
 *
 * If other threads move chunks, the backend calls cut and landed with `mutex` held. */
#pragma once

#include "csd/disk/disk.h"
#include "data/base/list.h"

#include <pthread.h>

enum { DISK_CHUNK = 1 << 20 }; // bytes

struct disk_queue {
    struct disk     base;
    unsigned        depth, n_requests; // n_requests: submitted and not reaped
    struct list     waiting, done;
    int             woken;
    pthread_mutex_t mutex;
    pthread_cond_t  news; // to the owner: a request is done, or wake was called
};

struct disk_chunk {
    struct disk_req   *r;
    char              *buf;
    size_t             bytes; // that are left; 1 for a flush
    uint64_t           off;
    struct disk_chunk *next;  // the backend's
};

void disk_queue_init(struct disk_queue *q, const struct disk_ops *ops, unsigned depth);
void disk_queue_release(struct disk_queue *q);

/* Take r in: 0, or -EAGAIN if there are `depth` requests. */
int disk_queue_add(struct disk_queue *q, struct disk_req *r);
/* Cut the next chunk into *p; 0 if no request waits. */
int disk_queue_cut(struct disk_queue *q, struct disk_chunk *p);
/* So many bytes of r have come back, with status 0 or -errno. True if r is over. */
int disk_queue_landed(struct disk_queue *q, struct disk_req *r, size_t bytes, int status);
/* Take up to max requests that are done, and their number. */
int disk_queue_take(struct disk_queue *q, struct disk_req **done, int max);

/* disk_ops.reap and wake of a backend that uses `news`. They take the mutex. */
int  disk_queue_reap(struct disk *d, struct disk_req **done, int max, int64_t wait_ns);
void disk_queue_wake(struct disk *d);

void disk_count_moved(struct disk *d); // a sign of life; any thread
