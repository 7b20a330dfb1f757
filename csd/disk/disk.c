/* disk.c: finds a kind of disk by name, opens it or, with a notice, its fall-back, and passes calls
 * on. */
#include "csd/disk/disk.h"

#include <assert.h>

/* The kinds of disks; those that store nothing are last. */
static const struct disk_ops *const all[] = { &disk_uring, &disk_sync, &disk_null };

const struct disk_ops *disk_at(size_t i) { return i < sizeof all / sizeof *all ? all[i] : NULL; }

const char *disk_name(size_t i) { return disk_at(i) ? disk_at(i)->name : NULL; }

const struct disk_ops *disk_find(const char *name)
{
    size_t i = 0;

    while (disk_at(i) && strcmp(disk_name(i), name))
        i++;
    return disk_at(i);
}

int disk_open(struct disk **out, const struct disk_ops *ops, const struct disk_config *cfg,
              char *notice, size_t size, struct err *err)
{
    struct err why = {0};
    int        rc = ops->open(out, cfg, &why);
    if (rc == -EOPNOTSUPP && ops == &disk_uring) {
        snprintf(notice, size, "%s: %s is read and written with pread and pwrite instead", why.text,
                 cfg->path);
        return disk_sync.open(out, cfg, err);
    }
    if (rc && err)
        *err = why;
    return rc;
}

int disk_submit(struct disk *d, struct disk_req *r)
{
    assert(r->op == DISK_FLUSH ||
           (r->bytes > 0 && r->bytes % d->align == 0 && r->off % d->align == 0));
    assert(r->op == DISK_FLUSH || (uintptr_t)r->buf % d->align == 0);
    return d->ops->submit(d, r);
}

void disk_close(struct disk *d)
{
    if (d)
        d->ops->close(d);
}
