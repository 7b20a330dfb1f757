/* file_device.c: opens files that hold the states of devices, and files like them: past the cache
 * where the file system can. file_in_ram and file_is_in_proc find places that cannot keep them. */
#include "data/file/file.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { BLOCK = 4096, BLOCKS = 24 }; // of O_DIRECT

/* True if a new file next to `path`, with links followed, is opened with O_DIRECT and then not
 * written to. What is there already may be anybody's, and is not written to. */
static int refuses_writes(const char *path, const void *p)
{
    struct file_new f;
    char           *at = realpath(path, NULL); // the target may be on another file system
    int             refuses = 0, fd = at ? file_new_open(&f, at, NULL) : -ENOENT;

    free(at);
    if (fd) // not in this folder; the first write says more
        return 0;
    if ((fd = open(f.temp, O_RDWR | O_DIRECT | O_CLOEXEC | O_NOFOLLOW)) < 0)
        refuses = errno == EINVAL;
    for (size_t n = 1; fd >= 0 && n <= BLOCKS && !refuses; n++)
        refuses = pwrite(fd, p, n * BLOCK, 0) < 0 && errno == EINVAL;
    file_close(fd);
    file_new_abort(&f);
    return refuses;
}

/* True for a file system in user space that opens files with O_DIRECT and then refuses to read
 * (unionfs-fuse) or to write them (mergerfs), unless its own buffer happens to be aligned: so
 * several sizes are tried. */
static int refuses_direct(int fd, const char *path, int flags)
{
    struct statfs fs;
    int           refuses = 0, fuse = !fstatfs(fd, &fs) && fs.f_type == FUSE_SUPER_MAGIC;
    void         *p = fuse ? aligned_alloc(BLOCK, BLOCK * BLOCKS) : NULL;

    for (size_t n = 1; p && n <= BLOCKS && !refuses; n++)
        refuses = pread(fd, p, n * BLOCK, 0) < 0 && errno == EINVAL;
    if (p && !refuses && (flags & O_ACCMODE) != O_RDONLY) {
        memset(p, 0, BLOCK * BLOCKS);
        refuses = refuses_writes(path, p);
    }
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
    int rc = fstat(fd, &st) ? -errno : S_ISREG(st.st_mode) || S_ISBLK(st.st_mode) ? 0 : -ENODEV;
    if (rc) {
        close(fd);
        return rc;
    }
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK); // io_uring takes it as a wish not to wait
    if ((flags & O_DIRECT) && refuses_direct(fd, path, flags)) {
        close(fd);
        return -EINVAL;
    }
    return fd;
}

int file_block_bytes(const char *path, uint64_t *bytes, struct err *err)
{
    int fd = file_open_device(path, O_RDONLY);
    int rc = fd < 0 ? file_open_fail(path, fd, err)
             : ioctl(fd, BLKGETSIZE64, bytes)
                 ? err_set(err, -errno, "size of %s: %s", path, strerror(errno)) : 0;

    file_close(fd);
    return rc;
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

int file_in_ram(const char *dir)
{
    struct statfs fs;

    // a devtmpfs reports that it is a tmpfs
    return !statfs(dir, &fs) && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

int file_is_in_proc(const char *path)
{
    char          at[PATH_MAX], to[6];
    struct statfs fs;

    // statfs follows /dev/stdin out of /proc again (to a pipe, say), so links are read as well
    for (size_t n = 0; n < sizeof at; n++) {
        if (path[n] && path[n] != '/')
            continue;
        snprintf(at, sizeof at, "%.*s", (int)n, path);
        if ((!statfs(at, &fs) && fs.f_type == PROC_SUPER_MAGIC) ||
            (readlink(at, to, sizeof to) == sizeof to && !memcmp(to, "/proc/", sizeof to)))
            return 1;
        if (!path[n])
            break;
    }
    return 0;
}
