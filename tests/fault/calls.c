/* calls.c: see calls.h. A wrapper asks `strikes` before the real call. */
#include "tests/fault/calls.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_int    armed = -1; // enum calls_kind
static atomic_ullong seen, at;
static atomic_int    how_, met;

void calls_arm(enum calls_kind kind, uint64_t nth, int how)
{
    atomic_store(&seen, 0);
    atomic_store(&at, nth);
    atomic_store(&how_, how);
    atomic_store(&met, 0);
    atomic_store(&armed, (int)kind);
}

uint64_t calls_disarm(void)
{
    atomic_store(&armed, -1);
    return atomic_load(&seen);
}

int calls_met(void)
{
    return atomic_load(&met);
}

/* How this call goes wrong: 0 not at all, errno, CALLS_SHORT. */
static int strikes(enum calls_kind kind)
{
    if (atomic_load(&armed) != (int)kind || atomic_fetch_add(&seen, 1) + 1 != atomic_load(&at))
        return 0;
    atomic_store(&met, 1);
    return atomic_load(&how_);
}

/* For calls that move no bytes. */
static int fails(enum calls_kind kind)
{
    int how = strikes(kind);

    if (how)
        errno = how == CALLS_SHORT ? EIO : how;
    return how;
}

/* For calls that move n: -1 if it fails, else how many it is to move. */
static ssize_t moves(enum calls_kind kind, size_t n)
{
    int how = strikes(kind);

    if (how > 0) {
        errno = how;
        return -1;
    }
    return how == CALLS_SHORT ? (ssize_t)(n / 2) : (ssize_t)n;
}

/* ---- files ---- */

int     __real_open(const char *path, int flags, mode_t mode);
int     __wrap_open(const char *path, int flags, mode_t mode);
ssize_t __real_pread(int fd, void *buf, size_t n, off_t off);
ssize_t __wrap_pread(int fd, void *buf, size_t n, off_t off);
ssize_t __real_pwrite(int fd, const void *buf, size_t n, off_t off);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t n, off_t off);
int     __real_fsync(int fd);
int     __wrap_fsync(int fd);
int     __real_fdatasync(int fd);
int     __wrap_fdatasync(int fd);
int     __real_ftruncate(int fd, off_t size);
int     __wrap_ftruncate(int fd, off_t size);
int     __real_posix_fallocate(int fd, off_t off, off_t n);
int     __wrap_posix_fallocate(int fd, off_t off, off_t n);
int     __real_mkdir(const char *path, mode_t mode);
int     __wrap_mkdir(const char *path, mode_t mode);
int     __real_rename(const char *from, const char *to);
int     __wrap_rename(const char *from, const char *to);
int     __real_renameat2(int a, const char *from, int b, const char *to, unsigned flags);
int     __wrap_renameat2(int a, const char *from, int b, const char *to, unsigned flags);

int __wrap_open(const char *path, int flags, mode_t mode)
{
    return fails(CALLS_FILES) ? -1 : __real_open(path, flags, mode);
}

ssize_t __wrap_pread(int fd, void *buf, size_t n, off_t off)
{
    ssize_t m = moves(CALLS_FILES, n);

    return m < 0 ? -1 : __real_pread(fd, buf, (size_t)m, off);
}

ssize_t __wrap_pwrite(int fd, const void *buf, size_t n, off_t off)
{
    ssize_t m = moves(CALLS_FILES, n);

    return m < 0 ? -1 : __real_pwrite(fd, buf, (size_t)m, off);
}

int __wrap_fsync(int fd)
{
    return fails(CALLS_FILES) ? -1 : __real_fsync(fd);
}

int __wrap_fdatasync(int fd)
{
    return fails(CALLS_FILES) ? -1 : __real_fdatasync(fd);
}

int __wrap_ftruncate(int fd, off_t size)
{
    return fails(CALLS_FILES) ? -1 : __real_ftruncate(fd, size);
}

int __wrap_posix_fallocate(int fd, off_t off, off_t n)
{
    return fails(CALLS_FILES) ? errno : __real_posix_fallocate(fd, off, n);
}

int __wrap_mkdir(const char *path, mode_t mode)
{
    return fails(CALLS_FILES) ? -1 : __real_mkdir(path, mode);
}

int __wrap_rename(const char *from, const char *to)
{
    return fails(CALLS_FILES) ? -1 : __real_rename(from, to);
}

int __wrap_renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
    return fails(CALLS_FILES) ? -1 : __real_renameat2(a, from, b, to, flags);
}

/* ---- SQLite's: its calls that move bytes by its table of them, syncs by the methods of its files
 * ---- */

static int sql_open(const char *path, int flags, int mode)
{
    return fails(CALLS_SQLITE) ? -1 : __real_open(path, flags, (mode_t)mode);
}

static ssize_t sql_pread(int fd, void *buf, size_t n, off_t off)
{
    ssize_t m = moves(CALLS_SQLITE, n);

    return m < 0 ? -1 : __real_pread(fd, buf, (size_t)m, off);
}

static ssize_t sql_pwrite(int fd, const void *buf, size_t n, off_t off)
{
    ssize_t m = moves(CALLS_SQLITE, n);

    return m < 0 ? -1 : __real_pwrite(fd, buf, (size_t)m, off);
}

static int sql_ftruncate(int fd, off_t size)
{
    return fails(CALLS_SQLITE) ? -1 : __real_ftruncate(fd, size);
}

static int sql_fstat(int fd, struct stat *st) { return fails(CALLS_SQLITE) ? -1 : fstat(fd, st); }

enum { METHODS = 16 };
static struct { sqlite3_io_methods ours; const sqlite3_io_methods *real; } methods[METHODS];
static sqlite3_vfs  ours;
static sqlite3_vfs *real_vfs;

static const sqlite3_io_methods *real_methods(const sqlite3_file *f)
{
    int i = 0;

    while (&methods[i].ours != f->pMethods)
        i++;
    return methods[i].real;
}

static int vfs_sync(sqlite3_file *f, int flags)
{
    return fails(CALLS_SQLITE) ? SQLITE_IOERR_FSYNC : real_methods(f)->xSync(f, flags);
}

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *out_flags)
{
    int rc = real_vfs->xOpen(vfs, name, f, flags, out_flags), i = 0;

    if (rc || !f->pMethods)
        return rc;
    while (i < METHODS && methods[i].real && methods[i].real != f->pMethods)
        i++;
    if (i == METHODS)
        abort();
    methods[i].real = f->pMethods;
    methods[i].ours = *f->pMethods;
    methods[i].ours.xSync = vfs_sync;
    f->pMethods = &methods[i].ours;
    return rc;
}

void calls_register(void)
{
    static const struct { const char *name; sqlite3_syscall_ptr call;
    } table[] = {
        { "open", (sqlite3_syscall_ptr)sql_open },
        { "pread", (sqlite3_syscall_ptr)sql_pread },
        { "pread64", (sqlite3_syscall_ptr)sql_pread },
        { "pwrite", (sqlite3_syscall_ptr)sql_pwrite },
        { "pwrite64", (sqlite3_syscall_ptr)sql_pwrite },
        { "ftruncate", (sqlite3_syscall_ptr)sql_ftruncate },
        { "fstat", (sqlite3_syscall_ptr)sql_fstat },
    };

    sqlite3_initialize();
    real_vfs = sqlite3_vfs_find(NULL);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        real_vfs->xSetSystemCall(real_vfs, table[i].name, table[i].call); // one that it does not
                                                                          // have stays away
    ours = *real_vfs;
    ours.zName = "faulty";
    ours.xOpen = vfs_open;
    sqlite3_vfs_register(&ours, 1);
}

/* ---- io_uring: what came back is changed before anyone looks ---- */

static unsigned ring_tail; // looked at so far

int __real_io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags);
int __wrap_io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags);
int __real_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring);
int __real_io_uring_submit_and_wait(struct io_uring *ring, unsigned n);
int __wrap_io_uring_submit_and_wait(struct io_uring *ring, unsigned n);
int __real_io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe,
                                            unsigned n, struct __kernel_timespec *ts,
                                            sigset_t *mask);
int __wrap_io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe,
                                            unsigned n, struct __kernel_timespec *ts,
                                            sigset_t *mask);

static void ring_look(struct io_uring *ring)
{
    unsigned tail = io_uring_smp_load_acquire(ring->cq.ktail), head = *ring->cq.khead;

    if ((int)(head - ring_tail) > 0) // taken before it could be looked at
        ring_tail = head;
    for (; ring_tail != tail; ring_tail++) {
        struct io_uring_cqe *cqe = &ring->cq.cqes[ring_tail & *ring->cq.kring_mask];
        int                  how = cqe->user_data ? strikes(CALLS_RING) : 0;

        if (how > 0)
            cqe->res = -how;
        else if (how == CALLS_SHORT && cqe->res > 4096)
            cqe->res = cqe->res / 2 / 4096 * 4096;
    }
}

int __wrap_io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags)
{
    ring_tail = 0;
    return __real_io_uring_queue_init(entries, ring, flags);
}

int __wrap_io_uring_submit(struct io_uring *ring)
{
    int rc = __real_io_uring_submit(ring);

    ring_look(ring);
    return rc;
}

int __wrap_io_uring_submit_and_wait(struct io_uring *ring, unsigned n)
{
    int rc = __real_io_uring_submit_and_wait(ring, n);

    ring_look(ring);
    return rc;
}

int __wrap_io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe,
                                            unsigned n, struct __kernel_timespec *ts,
                                            sigset_t *mask)
{
    int rc = __real_io_uring_submit_and_wait_timeout(ring, cqe, n, ts, mask);

    ring_look(ring);
    return rc;
}

/* ---- memory and threads ---- */

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off);
char *__real_strdup(const char *s);
char *__wrap_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
char *__wrap_strndup(const char *s, size_t n);
char *__real_realpath(const char *path, char *out);
char *__wrap_realpath(const char *path, char *out);
int   __wrap_asprintf(char **out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int   __real_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *),
                            void *arg);
int   __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *),
                            void *arg);

void *__wrap_malloc(size_t n)
{
    return fails(CALLS_MEMORY) ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails(CALLS_MEMORY) ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails(CALLS_MEMORY) ? NULL : __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    return fails(CALLS_MEMORY) ? NULL : __real_aligned_alloc(align, n);
}

void *__wrap_mmap(void *at_, size_t n, int prot, int flags, int fd, off_t off)
{
    return fails(CALLS_MEMORY) ? MAP_FAILED : __real_mmap(at_, n, prot, flags, fd, off);
}

char *__wrap_strdup(const char *s)
{
    return fails(CALLS_MEMORY) ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n)
{
    return fails(CALLS_MEMORY) ? NULL : __real_strndup(s, n);
}

char *__wrap_realpath(const char *path, char *out)
{
    return fails(CALLS_MEMORY) ? NULL : __real_realpath(path, out);
}

int __wrap_asprintf(char **out, const char *fmt, ...)
{
    va_list ap;
    int     n;

    if (fails(CALLS_MEMORY))
        return -1;
    va_start(ap, fmt);
    n = vasprintf(out, fmt, ap);
    va_end(ap);
    return n;
}

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    return fails(CALLS_MEMORY) ? EAGAIN : __real_pthread_create(t, attr, run, arg);
}
