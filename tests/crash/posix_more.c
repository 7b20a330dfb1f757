/* posix_more.c: as posix.c, the calls that snapshots, going back and restore use in addition: names
 * in an open folder, second names (hard links), blocks that two files share, attributes. */
#include "tests/crash/bytes.h"
#include "tests/crash/names.h"
#include "tests/crash/posix.h"
#include "tests/crash/power.h"
#include "tests/crash/storage.h"
#include "tests/crash/threads.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static int sharing;

int     __real_openat(int at, const char *path, int flags, ...);
int     __real_fstatat(int at, const char *path, struct stat *st, int flags);
int     __real_faccessat(int at, const char *path, int how, int flags);
int     __real_ioctl(int fd, unsigned long what, ...);
int     __real_link(const char *from, const char *to);
int     __real_posix_fadvise(int fd, off_t off, off_t n, int advice);
ssize_t __real_lgetxattr(const char *path, const char *name, void *value, size_t n);
int     __wrap_openat(int at, const char *path, int flags, ...);
int     __wrap_fstatat(int at, const char *path, struct stat *st, int flags);
int     __wrap_faccessat(int at, const char *path, int how, int flags);
int     __wrap_ioctl(int fd, unsigned long what, ...);
int     __wrap_link(const char *from, const char *to);
int     __wrap_posix_fadvise(int fd, off_t off, off_t n, int advice);
ssize_t __wrap_lgetxattr(const char *path, const char *name, void *value, size_t n);

void posix_share(int shares) { sharing = shares; }

/* A name in an open simulated folder as a path. 0: it is a name of the system's. */
static int path_in(char out[PATH_BYTES], int at, const char *path)
{
    int dir = *path == '/' ? -1 : posix_file(at);

    snprintf(out, PATH_BYTES, "%s", path);
    if (dir >= 0) {
        int n = snprintf(out, PATH_BYTES, "%s/%s", storage_path(dir), path);

        assert(n < PATH_BYTES);
    }
    return simulated(out);
}

int __wrap_openat(int at, const char *path, int flags, ...)
{
    char    full[PATH_BYTES];
    va_list ap;
    mode_t  mode;

    va_start(ap, flags);
    mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return path_in(full, at, path) ? open(full, flags, mode) : __real_openat(at, path, flags, mode);
}

int __wrap_fstatat(int at, const char *path, struct stat *st, int flags)
{
    char full[PATH_BYTES];

    return path_in(full, at, path) ? lstat(full, st) : __real_fstatat(at, path, st, flags);
}

int __wrap_faccessat(int at, const char *path, int how, int flags)
{
    char full[PATH_BYTES];

    return path_in(full, at, path) ? access(full, how) : __real_faccessat(at, path, how, flags);
}

int __wrap_link(const char *from, const char *to)
{
    return simulated(from) ? give(storage_link(from, to)) : __real_link(from, to);
}

int __wrap_posix_fadvise(int fd, off_t off, off_t n, int advice)
{
    return posix_file(fd) < 0 ? __real_posix_fadvise(fd, off, n, advice) : 0;
}

ssize_t __wrap_lgetxattr(const char *path, const char *name, void *value, size_t n)
{
    return simulated(path) ? give(-ENODATA) : __real_lgetxattr(path, name, value, n);
}

/* What stands in `from` stands in `to`. As a write, any part of it is durable before a flush. */
static int share(int from, int to, uint64_t off, uint64_t n, uint64_t at)
{
    if (!sharing)
        return -EOPNOTSUPP;
    n = n ? n : storage_size(from) - off;
    if (n == 0 || off % 512 || at % 512)
        return -EINVAL;
    void *bytes = must_alloc(NULL, n);
    int   rc = storage_read(from, bytes, n, off) < n ? -EINVAL : 0;

    rc = rc ? rc : storage_write(to, bytes, n, at);
    free(bytes);
    return rc;
}

int __wrap_ioctl(int fd, unsigned long what, ...)
{
    va_list ap;
    int     to = posix_file(fd);

    va_start(ap, what);
    void *arg = va_arg(ap, void *);
    va_end(ap);
    if (to < 0)
        return __real_ioctl(fd, what, arg);
    threads_yield();
    if (power_is_cut())
        return give(-EIO);
    if (what == FICLONE) // the argument is a number
        return give(share(posix_file((int)(intptr_t)arg), to, 0, 0, 0));
    if (what == FICLONERANGE) {
        const struct file_clone_range *r = arg;

        return give(share(posix_file((int)r->src_fd), to, r->src_offset, r->src_length,
                          r->dest_offset));
    }
    return give(-ENOTTY);
}
