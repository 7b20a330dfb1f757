/* disk.h: one open file or block device, read and written asynchronously. Backends: uring
 * (O_DIRECT, registered file and buffers), sync (pread and pwrite in a few threads; the fall-back,
 * with a notice), null (answers at once, stores nothing). One thread owns a disk: it alone submits
 * and reaps. Only wake may be called by another thread. */
#pragma once

#include "data/base/err.h"

#include <sys/uio.h>

enum disk_op { DISK_READ, DISK_WRITE, DISK_FLUSH };

struct disk_req {
    enum disk_op op;
    void        *buf;    // aligned to disk.align; the request's until it is reaped
    size_t       bytes;  // a multiple of disk.align, of any size; short transfers are continued
    uint64_t     off;    // a multiple of disk.align
    int          status; // after reap: 0, or -errno (-EIO also for an unexpected end of the file)
    void        *user;   // the owner's
    // the backend's own
    struct disk_req *next;
    size_t           cut, through; // bytes given to the kernel so far; bytes that came back
};

struct disk_config {
    const char *path;
    uint64_t    bytes;      // size that the file must have; with create, that it gets, allocated
    int         create;     // make the file, mode 0600 less umask; refuse one that exists
    /* For an existing file of at least this size: its first `keep` bytes stay, and the file becomes
     * `bytes` long, allocated. 0: its size is not touched. */
    uint64_t    keep;
    int         read_only;
    unsigned    depth;      // the most requests in flight
    const struct iovec *buffers; // (n_buffers) memory of requests, to be registered; may be none
    unsigned    n_buffers;
};

/* First member of every backend. align: of offsets, lengths and addresses. moved: how often a part
 * of a request has come back, which is a sign of life during large requests. Any thread of the
 * backend counts; read it with disk_moved. */
struct disk { const struct disk_ops *ops; size_t align; uint64_t moved; };

enum { DISK_FAKE = 1 }; // disk_ops.flags: stores nothing

struct disk_ops {
    const char *name; // what --disk takes
    unsigned    flags;
    unsigned    threads; // that each open disk has
    int  (*open)(struct disk **out, const struct disk_config *cfg, struct err *err);
    /* 0, or -EAGAIN: reap first. The request begins at the latest with the next reap. */
    int  (*submit)(struct disk *d, struct disk_req *r);
    /* Completed requests, at most max, and their number, which may be 0; or -errno if the disk is
     * unusable. Waits up to wait_ns (0: not at all, -1: for ever) until a request is complete or
     * wake is called. A flush covers writes that were reaped before the flush was submitted. */
    int  (*reap)(struct disk *d, struct disk_req **done, int max, int64_t wait_ns);
    void (*wake)(struct disk *d);  // any thread: the reap that waits, or the next one, returns
    void (*close)(struct disk *d); // waits for requests in flight; accepts NULL
    /* Instead of close, if requests do not come back: waits for none. Requests and their memory
     * must stay for ever, because a silent disk may still answer. */
    void (*abandon)(struct disk *d);
};

extern const struct disk_ops disk_uring, disk_sync, disk_null; // null: reads change no buffer

const struct disk_ops *disk_at(size_t i); // the i-th kind; NULL past the last
const char            *disk_name(size_t i);
const struct disk_ops *disk_find(const char *name); // NULL: no kind has this name

/* Open cfg with a backend; 0 or -errno. If io_uring or O_DIRECT is forbidden or unsupported, the
 * sync disk is opened instead, and notice[0..size) gets a sentence. */
int  disk_open(struct disk **out, const struct disk_ops *ops, const struct disk_config *cfg,
               char *notice, size_t size, struct err *err);
int  disk_submit(struct disk *d, struct disk_req *r);
void disk_close(struct disk *d);
static inline int disk_reap(struct disk *d, struct disk_req **done, int max, int64_t wait_ns)
{
    return d->ops->reap(d, done, max, wait_ns);
}
static inline void disk_wake(struct disk *d) { d->ops->wake(d); }
static inline void disk_abandon(struct disk *d) { d->ops->abandon(d); }
static inline uint64_t disk_moved(const struct disk *d)
{
    return __atomic_load_n(&d->moved, __ATOMIC_RELAXED);
}
