/* disk_null.c: answers every request at once and stores nothing, to measure everything else. */
#include "csd/disk/disk_queue.h"

static int null_open(struct disk **out, const struct disk_config *cfg, struct err *err)
{
    struct disk_queue *q = malloc(sizeof *q);

    if (!q)
        return err_set(err, -ENOMEM, "no memory for the null disk of %s", cfg->path);
    disk_queue_init(q, &disk_null, cfg->depth);
    q->base.align = 512;
    *out = &q->base;
    return 0;
}

static int null_submit(struct disk *d, struct disk_req *r)
{
    struct disk_queue *q = (struct disk_queue *)d;
    struct disk_chunk  p;

    pthread_mutex_lock(&q->mutex);
    int rc = disk_queue_add(q, r);
    while (rc == 0 && disk_queue_cut(q, &p))
        disk_queue_landed(q, r, p.bytes, 0);
    pthread_mutex_unlock(&q->mutex);
    return rc;
}

static void null_close(struct disk *d)
{
    disk_queue_release((struct disk_queue *)d);
    free(d);
}

const struct disk_ops disk_null = {
    .name = "null", .flags = DISK_FAKE, .open = null_open, .submit = null_submit,
    .reap = disk_queue_reap, .wake = disk_queue_wake, .close = null_close, .abandon = null_close,
};
