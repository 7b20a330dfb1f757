/* disk_uring.c: reads and writes a file or block device through io_uring, with O_DIRECT. The file
 * and the owner's buffers are registered.
 *
 * The queue's requests get free chunks. A chunk that came back short is continued. Only reap enters
 * the kernel: one call submits all that was prepared, and waits. Memory that could not be
 * registered (RLIMIT_MEMLOCK) is used unregistered. Everything runs in the owner's thread, except
 * for wake, which writes to an eventfd that the ring reads. */
#include "csd/disk/disk_file.h"
#include "csd/disk/disk_queue.h"
#include "data/base/bell.h"
#include "data/base/clock.h"
#include "data/base/round.h"

#include <fcntl.h>
#include <liburing.h>
#include <linux/stat.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { URING_ALIGN = 4096, FILE_INDEX = 0, WAKE_WAIT_NS = 1000000000 };
enum { BUFFER_MAX = 1 << 30 }; // the kernel's limit for one registered buffer

struct uring {
    struct disk_queue  q;
    struct io_uring    ring;
    int                fd, wake_fd;
    uint64_t           wake_count; // where the pending read of wake_fd writes
    int                armed;      // that read is pending
    unsigned           n_flying;   // chunks in the kernel or prepared for it
    struct disk_chunk *chunks, *free;
    struct iovec      *registered;
    unsigned           n_registered;
};

/* ---- opening ---- */

/* Registers cfg's buffers, in parts as large as the kernel takes. After a failure none is
 * registered. */
static int buffers_register(struct uring *d, const struct disk_config *cfg)
{
    size_t n = 0, part;

    for (unsigned i = 0; i < cfg->n_buffers; i++)
        n += div_up(cfg->buffers[i].iov_len, BUFFER_MAX);
    d->registered = calloc(n + 1, sizeof *d->registered);
    if (!d->registered)
        return -ENOMEM;
    for (unsigned i = 0; i < cfg->n_buffers; i++)
        for (size_t at = 0; at < cfg->buffers[i].iov_len; at += part) {
            part = size_min(cfg->buffers[i].iov_len - at, BUFFER_MAX);
            d->registered[d->n_registered++] =
                (struct iovec){(char *)cfg->buffers[i].iov_base + at, part};
        }
    if (n && io_uring_register_buffers(&d->ring, d->registered, d->n_registered) != 0)
        d->n_registered = 0;
    return 0;
}

/* The alignment that the file needs. -EOPNOTSUPP if it takes no direct transfers, or only larger
 * units than ours. */
static int file_align(int fd, const char *path, size_t *align, struct err *err)
{
    struct statx stx;

    *align = URING_ALIGN;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) != 0 || !(stx.stx_mask & STATX_DIOALIGN))
        return 0;
    *align = size_max(stx.stx_dio_mem_align, stx.stx_dio_offset_align);
    if (stx.stx_dio_offset_align == 0 || *align > URING_ALIGN)
        return err_set(err, -EOPNOTSUPP, "%s takes no direct transfers in units of %d bytes", path,
                       (int)URING_ALIGN);
    return 0;
}

static void uring_free(struct uring *d)
{
    if (d->ring.ring_fd > 0)
        io_uring_queue_exit(&d->ring);
    if (d->fd >= 0) {
        flock(d->fd, LOCK_UN); // now: the ring drops its reference some time later
        close(d->fd);
    }
    if (d->wake_fd >= 0)
        close(d->wake_fd);
    free(d->registered);
    free(d->chunks);
    disk_queue_release(&d->q);
    free(d);
}

/* Opens the ring, the eventfd that wakes its owner, and the file. */
static int parts_open(struct uring *d, const struct disk_config *cfg, struct err *err)
{
    int rc = io_uring_queue_init(cfg->depth + 1, &d->ring, 0); // chunks, and the read of wake_fd

    if (rc) {
        d->ring.ring_fd = -1;
        return err_set(err, -EOPNOTSUPP, "io_uring cannot be used here (%s)", strerror(-rc));
    }
    d->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (d->wake_fd < 0)
        return err_set(err, -errno, "eventfd: %s", strerror(errno));
    d->fd = disk_file_open(cfg, O_DIRECT, err);
    return d->fd < 0 ? d->fd : file_align(d->fd, cfg->path, &d->q.base.align, err);
}

static int uring_open(struct disk **out, const struct disk_config *cfg, struct err *err)
{
    struct uring *d = calloc(1, sizeof *d);

    if (!d)
        return err_set(err, -ENOMEM, "no memory to open %s", cfg->path);
    d->fd = d->wake_fd = d->ring.ring_fd = -1;
    disk_queue_init(&d->q, &disk_uring, cfg->depth);
    d->chunks = calloc(cfg->depth, sizeof *d->chunks);
    for (unsigned i = 0; d->chunks && i < cfg->depth; i++) {
        d->chunks[i].next = d->free;
        d->free = &d->chunks[i];
    }
    int rc = d->chunks ? parts_open(d, cfg, err)
                       : err_set(err, -ENOMEM, "no memory to open %s", cfg->path);
    if (!rc) {
        rc = io_uring_register_files(&d->ring, &d->fd, 1);
        if (rc == 0)
            rc = buffers_register(d, cfg);
        if (rc)
            err_set(err, rc, "register %s with io_uring: %s", cfg->path, strerror(-rc));
    }
    if (rc) {
        if (d->fd >= 0)
            disk_file_undo(cfg);
        uring_free(d);
        return rc;
    }
    *out = &d->q.base;
    return 0;
}

/* ---- chunks into the ring ---- */

/* Index of the registered buffer that p lies in, or -1. */
static int chunk_buffer(const struct uring *d, const struct disk_chunk *p)
{
    for (unsigned i = 0; i < d->n_registered; i++) {
        uintptr_t from = (uintptr_t)d->registered[i].iov_base, at = (uintptr_t)p->buf;

        if (at >= from && at + p->bytes <= from + d->registered[i].iov_len)
            return (int)i;
    }
    return -1;
}

static void chunk_prepare(struct uring *d, struct disk_chunk *p)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&d->ring); // never NULL: chunks have entries
    enum disk_op         op = p->r->op;
    int                  buffer = op == DISK_FLUSH ? -1 : chunk_buffer(d, p);
    unsigned             n = (unsigned)p->bytes;

    if (op == DISK_FLUSH)
        io_uring_prep_fsync(sqe, FILE_INDEX, IORING_FSYNC_DATASYNC);
    else if (op == DISK_READ && buffer >= 0)
        io_uring_prep_read_fixed(sqe, FILE_INDEX, p->buf, n, p->off, buffer);
    else if (op == DISK_READ)
        io_uring_prep_read(sqe, FILE_INDEX, p->buf, n, p->off);
    else if (buffer >= 0)
        io_uring_prep_write_fixed(sqe, FILE_INDEX, p->buf, n, p->off, buffer);
    else
        io_uring_prep_write(sqe, FILE_INDEX, p->buf, n, p->off);
    io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
    io_uring_sqe_set_data(sqe, p);
}

static void chunks_fill(struct uring *d)
{
    struct disk_chunk *p;

    while ((p = d->free) != NULL) {
        struct disk_chunk *rest = p->next;

        if (!disk_queue_cut(&d->q, p))
            break;
        d->free = rest;
        d->n_flying++;
        chunk_prepare(d, p);
    }
}

/* Makes sure that a read of wake_fd is pending. */
static void wake_arm(struct uring *d)
{
    if (d->armed)
        return;
    struct io_uring_sqe *sqe = io_uring_get_sqe(&d->ring);
    io_uring_prep_read(sqe, d->wake_fd, &d->wake_count, sizeof d->wake_count, 0);
    io_uring_sqe_set_data(sqe, NULL);
    d->armed = 1;
}

/* ---- chunks out of the ring ---- */

static void chunk_returned(struct uring *d, struct disk_chunk *p, int res)
{
    int    is_flush = p->r->op == DISK_FLUSH, is_short = res >= 0 && (size_t)res < p->bytes;
    size_t came = res > 0 ? (size_t)res / d->q.base.align * d->q.base.align : 0;

    if (!is_flush && (res == -EINTR || res == -EAGAIN || (is_short && came > 0))) {
        if (came > 0) // the rest is asked for again
            disk_queue_landed(&d->q, p->r, came, 0);
        p->buf += came;
        p->off += came;
        p->bytes -= came;
        chunk_prepare(d, p);
        return;
    }
    if (!is_flush && is_short)
        res = -EIO; // the end of the file, or of the space
    disk_queue_landed(&d->q, p->r, p->bytes, res < 0 ? res : 0);
    p->next = d->free;
    d->free = p;
    d->n_flying--;
}

static void ring_drain(struct uring *d)
{
    struct io_uring_cqe *cqe;

    while (io_uring_peek_cqe(&d->ring, &cqe) == 0) {
        struct disk_chunk *p = io_uring_cqe_get_data(cqe);
        int           res = cqe->res;

        io_uring_cqe_seen(&d->ring, cqe);
        if (p) {
            chunk_returned(d, p, res);
        } else { // a wake, or its read was cancelled with the thread that had asked for it
            d->armed = 0;
            d->q.woken = 1;
        }
    }
}

/* Submits what is prepared and waits for a completion until end_ns (0: does not wait, UINT64_MAX:
 * forever). 0 or -errno. */
static int ring_enter(struct uring *d, uint64_t end_ns)
{
    uint64_t now = end_ns == 0 ? 0 : clock_ns(), left = end_ns > now ? end_ns - now : 0;
    struct __kernel_timespec ts = { (int64_t)(left / 1000000000u),
                                    (long long)(left % 1000000000u) };
    struct io_uring_cqe     *cqe;
    int                      rc;

    if (end_ns == 0)
        rc = io_uring_sq_ready(&d->ring) > 0 ? io_uring_submit(&d->ring) : 0;
    else if (end_ns == UINT64_MAX)
        rc = io_uring_submit_and_wait(&d->ring, 1);
    else
        rc = io_uring_submit_and_wait_timeout(&d->ring, &cqe, 1, &ts, NULL);
    // -EAGAIN, -EBUSY: completions must be taken first
    return rc > 0 || rc == -ETIME || rc == -EINTR || rc == -EAGAIN || rc == -EBUSY ? 0 : rc;
}

/* ---- the calls ---- */

static int uring_submit(struct disk *base, struct disk_req *r)
{
    return disk_queue_add((struct disk_queue *)base, r);
}

static int uring_reap(struct disk *base, struct disk_req **done, int max, int64_t wait_ns)
{
    struct uring *d = (struct uring *)base;
    uint64_t      end = wait_ns ? bell_end((uint64_t)wait_ns) : 0; // -1: never
    int           n, rc;

    for (int last = 0;;) {
        ring_drain(d);
        chunks_fill(d);
        wake_arm(d);
        n = disk_queue_take(&d->q, done, max);
        rc = ring_enter(d, n > 0 || last || d->q.woken ? 0 : end);
        if (rc || n > 0 || last)
            break;
        // once more, for what this entry completed
        last = d->q.woken || wait_ns == 0 || (wait_ns > 0 && clock_ns() >= end);
    }
    if (wait_ns != 0)
        d->q.woken = 0;
    return rc ? rc : n;
}

static void uring_wake(struct disk *base)
{
    struct uring *d = (struct uring *)base;
    uint64_t      one = 1;

    while (write(d->wake_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

/* Closes the ring. Nothing in it may still point into memory. */
static void uring_close(struct disk *base)
{
    struct uring *d = (struct uring *)base;

    uring_wake(base);
    for (;;) {
        ring_drain(d);
        if (!d->armed && d->n_flying == 0 && !d->q.waiting.first)
            break;
        chunks_fill(d);
        if (ring_enter(d, UINT64_MAX))
            break;
    }
    uring_free(d);
}

/* The kernel removes the ring later. Only the read of wake_fd points into d, so this waits for
 * it. */
static void uring_abandon(struct disk *base)
{
    struct uring *d = (struct uring *)base;
    uint64_t      end = clock_ns() + WAKE_WAIT_NS;

    uring_wake(base);
    while (d->armed && clock_ns() < end) {
        ring_drain(d);
        if (d->armed && ring_enter(d, end))
            break;
    }
    if (!d->armed)
        uring_free(d);
}

const struct disk_ops disk_uring = {
    .name = "uring", .open = uring_open, .submit = uring_submit, .reap = uring_reap,
    .wake = uring_wake, .close = uring_close, .abandon = uring_abandon,
};
