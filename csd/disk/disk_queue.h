/* disk_queue.h: the requests of a disk, and how its owner waits for them; the first member of every
 * backend.
 *
 * A request stands in `waiting` until all of it is cut into chunks or one of them failed. It is
 * over when the chunks that were cut have come back, and stands in `done` until it is reaped.
 * Requests take turns: after a chunk the rest of one goes to the end, so that large ones move
 * together and a small one waits behind none of them.
 *
 * A backend whose chunks are moved by other threads calls cut and landed with `mutex` held. */
#pragma once

#include "csd/disk/disk.h"
#include "data/base/list.h"

#include <pthread.h>

enum { DISK_CHUNK = 1 << 20 }; // bytes

struct disk_queue {
    struct disk     base;
    unsigned        depth, n_requests; // n_requests: submitted and not yet reaped
    struct list     waiting, done;
    int             woken;
    pthread_mutex_t mutex;
    pthread_cond_t  news; // for the owner: one is done, or it is woken
};

struct disk_chunk {
    struct disk_req   *r;
    char              *buf;
    size_t             bytes; // left of it; 1 for a flush
    uint64_t           off;
    struct disk_chunk *next;  // the backend's
};

void disk_queue_init(struct disk_queue *q, const struct disk_ops *ops, unsigned depth);
void disk_queue_release(struct disk_queue *q);

/* Take r in, or -EAGAIN where there are `depth` already. */
int disk_queue_add(struct disk_queue *q, struct disk_req *r);
/* Cut the next chunk; 0 where no request waits. */
int disk_queue_cut(struct disk_queue *q, struct disk_chunk *p);
/* So many bytes of r have come back, with 0 or -errno: a sign of life. Whether r is over. */
int disk_queue_landed(struct disk_queue *q, struct disk_req *r, size_t bytes, int status);
/* Up to max that are done. */
int disk_queue_take(struct disk_queue *q, struct disk_req **done, int max);

/* disk_ops's, for a backend with the condition `news`; they take the mutex themselves. */
int  disk_queue_reap(struct disk *d, struct disk_req **done, int max, int64_t wait_ns);
void disk_queue_wake(struct disk *d);

void disk_count_moved(struct disk *d); // another sign of life; any thread
