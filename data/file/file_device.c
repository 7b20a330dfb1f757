/* file_device.c: opens files that hold the states of devices, and files like them: past the cache
 * where the file system can. */
#include "data/file/file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* True for a file system in user space (unionfs-fuse) that opens files with O_DIRECT and then
 * refuses to read them, unless its own buffer happens to be aligned: so several sizes are read. */
static int refuses_direct(int fd)
{
    enum { BLOCK = 4096, BLOCKS = 24 };
    struct statfs fs;
    int           refuses = 0, fuse = !fstatfs(fd, &fs) && fs.f_type == FUSE_SUPER_MAGIC;
    void         *p = fuse ? aligned_alloc(BLOCK, BLOCK * BLOCKS) : NULL;

    for (size_t n = 1; p && n <= BLOCKS && !refuses; n++)
        refuses = pread(fd, p, n * BLOCK, 0) < 0 && errno == EINVAL;
    free(p);
    return refuses;
}

int file_open_device(const char *path, int flags)
{
    enum { TRIES = 100, WAIT_US = 20000 };
    struct stat st;

    // other kinds are not even opened, because opening alone affects some devices
    if (!stat(path, &st) && !S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
        return -ENODEV;
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);
    for (int i = 0; fd < 0 && errno == EBUSY && (flags & O_EXCL) && i < TRIES; i++) {
        usleep(WAIT_US);
        fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);
    }
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) || (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))) {
        close(fd);
        return -ENODEV;
    }
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK); // io_uring takes it as a wish not to wait
    if ((flags & O_DIRECT) && refuses_direct(fd)) {
        close(fd);
        return -EINVAL;
    }
    return fd;
}

int file_open_uncached(const char *path, int flags)
{
    int fd = file_open_device(path, flags | O_DIRECT);

    return fd == -EINVAL ? file_open_device(path, flags) : fd;
}

int file_open_empty(int own, const char *path, int uncached, struct err *err)
{
    static const char sector[4096];
    int               rc = file_pwrite(own, sector, sizeof sector, 0, path, err), fd = rc;

    if (!rc) {
        fd = uncached ? file_open_uncached(path, O_RDWR) : file_open_device(path, O_RDWR);
        rc = fd < 0 ? err_set(err, fd, "open %s: %s", path, strerror(-fd)) : 0;
    }
    if (ftruncate(own, 0) && !rc)
        rc = err_set(err, -errno, "cut %s: %s", path, strerror(errno));
    if (rc && fd >= 0)
        close(fd);
    return rc ? rc : fd;
}
