/* disk.h: one open file or block device, read and written asynchronously. Backends: uring
 * (O_DIRECT, registered file and buffers), sync (pread/pwrite on a thread pool, the announced
 * fall-back), null (answers at once, stores nothing). One thread owns a disk: it alone submits and
 * reaps; disk wake is the one call that another thread may make. */
#pragma once

#include "data/base/err.h"

#include <sys/uio.h>

enum disk_op { DISK_READ, DISK_WRITE, DISK_FLUSH };

struct disk_req {
    enum disk_op op;
    void        *buf;    // aligned to disk_align; owned by the request until it is reaped
    size_t       bytes;  // multiple of disk_align; any size: the backend cuts and continues short
                         // transfers
    uint64_t     off;    // multiple of disk_align
    int          status; // after reap: 0, or -errno (-EIO also for an unexpected end of file)
    void        *user;   // the owner's
    // the backend's own
    struct disk_req *next;
    size_t           cut, through; // bytes handed to the kernel, and come back, so far
};

struct disk_config {
    const char *path;
    uint64_t bytes; // the file must be (or, with create, becomes, fully allocated) at least so long
    int         create;     // make it, 0600 by umask; refuse one that exists
    /* Of a file that is there and at least so long: this much stays as it is, and what is behind it
     * becomes, fully allocated, as long as bytes says; 0: it is not touched. */
    uint64_t    keep;
    int         read_only;
    unsigned    depth;      // requests that may be in flight
    const struct iovec *buffers; // memory that requests will point into, to register; may be none
    unsigned    n_buffers;
};

/* First member of every backend. align: of offsets, lengths, addresses. moved: how often any part
 * of any request has come back: a sign of life while large requests are under way (counted by the
 * backend, from any thread: read it with disk_moved). */
struct disk { const struct disk_ops *ops; size_t align; uint64_t moved; };

enum { DISK_FAKE = 1 }; // flags: stores nothing

struct disk_ops {
    const char *name; // what --disk takes
    unsigned    flags;
    int  (*open)(struct disk **out, const struct disk_config *cfg, struct err *err);
    // 0, or -EAGAIN: reap first. Started by the next reap at the latest
    int  (*submit)(struct disk *d, struct disk_req *r);
    /* Completed requests, at most max; waits up to wait_ns (0: not at all, -1: for ever) until
     * there is one or wake is called. Number reaped (0 possible) or -errno if the disk is unusable.
     * A flush covers what was reaped before it was submitted. */
    int  (*reap)(struct disk *d, struct disk_req **done, int max, int64_t wait_ns);
    void (*wake)(struct disk *d);  // any thread: a reap that waits, or the next one, returns
    void (*close)(struct disk *d); // waits for requests in flight; accepts NULL
    /* Instead of close, where requests do not come back: waits for none of them. They, and the
     * memory they point into, must stay for ever, for what is silent may still answer. */
    void (*abandon)(struct disk *d);
};

extern const struct disk_ops disk_uring, disk_sync, disk_null; // null: reads leave the buffer as it
                                                               // is

const struct disk_ops *disk_at(size_t i); // the i-th kind; NULL past the last
const char            *disk_name(size_t i);
const struct disk_ops *disk_find(const char *name); // NULL: there is none

/* Open cfg with a backend. Where uring or O_DIRECT is
 * forbidden or unsupported the sync disk is opened instead and a sentence saying so is put in
 * notice[0..size). */
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
