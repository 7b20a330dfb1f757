/* posix.c: the calls of our own objects that name or move files, for names below /sim/ on simulated
 * storage (--wrap of tests/tests.mk brings them here); every other name goes on to the system. A
 * descriptor of a simulated file is that of an empty real one, so that numbers are never given
 * twice. A lock is held by the descriptor that took it. */
#include "tests/crash/posix.h"

#include "tests/crash/power.h"
#include "tests/crash/storage.h"
#include "tests/crash/threads.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { DESCRIPTORS = 1024, SHARED = 1, ALONE = 2 };

static struct {
    int used, file, locked;
} descriptors[DESCRIPTORS];

int     __real_open(const char *path, int flags, ...);
int     __real_close(int fd);
ssize_t __real_pread(int fd, void *buf, size_t n, off_t off);
ssize_t __real_pwrite(int fd, const void *buf, size_t n, off_t off);
int     __real_fdatasync(int fd);
int     __real_sync_file_range(int fd, off_t off, off_t n, unsigned flags);
int     __real_ftruncate(int fd, off_t size);
int     __real_posix_fallocate(int fd, off_t off, off_t n);
int     __real_flock(int fd, int how);
int     __real_fstat(int fd, struct stat *st);
int     __real_fstatvfs(int fd, struct statvfs *st);
int     __real_stat(const char *path, struct stat *st);
int     __real_lstat(const char *path, struct stat *st);
int     __real_statvfs(const char *path, struct statvfs *st);
int     __real_access(const char *path, int how);
char   *__real_realpath(const char *path, char *resolved);
int     __real_mkdir(const char *path, mode_t mode);
int     __real_unlink(const char *path);
int     __real_rmdir(const char *path);
int     __real_rename(const char *from, const char *to);
int     __real_renameat2(int at, const char *from, int to_at, const char *to, unsigned flags);
int     __wrap_open(const char *path, int flags, ...);
int     __wrap_close(int fd);
ssize_t __wrap_pread(int fd, void *buf, size_t n, off_t off);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t n, off_t off);
int     __wrap_fsync(int fd);
int     __wrap_fdatasync(int fd);
int     __wrap_sync_file_range(int fd, off_t off, off_t n, unsigned flags);
int     __wrap_ftruncate(int fd, off_t size);
int     __wrap_posix_fallocate(int fd, off_t off, off_t n);
int     __wrap_flock(int fd, int how);
int     __wrap_fstat(int fd, struct stat *st);
int     __wrap_fstatvfs(int fd, struct statvfs *st);
int     __wrap_stat(const char *path, struct stat *st);
int     __wrap_lstat(const char *path, struct stat *st);
int     __wrap_statvfs(const char *path, struct statvfs *st);
int     __wrap_access(const char *path, int how);
char   *__wrap_realpath(const char *path, char *resolved);
int     __wrap_mkdir(const char *path, mode_t mode);
int     __wrap_unlink(const char *path);
int     __wrap_rmdir(const char *path);
int     __wrap_rename(const char *from, const char *to);
int     __wrap_renameat2(int at, const char *from, int to_at, const char *to, unsigned flags);

int posix_file(int fd)
{
    return fd >= 0 && fd < DESCRIPTORS && descriptors[fd].used ? descriptors[fd].file : -1;
}

unsigned posix_open_files(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < DESCRIPTORS; fd++)
        n += descriptors[fd].used != 0;
    return n;
}

/* Each start of the simulated machine is another one. */
static int boot_open(void)
{
    char text[64];
    int  fd = memfd_create("boot", MFD_CLOEXEC);
    int  n = snprintf(text, sizeof text, "00000000-0000-0000-0000-%012u\n", storage_boots());

    assert(fd >= 0 && __real_pwrite(fd, text, (size_t)n, 0) == n);
    return fd;
}

int __wrap_open(const char *path, int flags, ...)
{
    va_list ap;
    mode_t  mode;
    int     file, fd;

    va_start(ap, flags);
    mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    if (!strcmp(path, "/proc/sys/kernel/random/boot_id"))
        return boot_open();
    if (!simulated(path))
        return __real_open(path, flags, mode);
    if (flags & O_DIRECT)
        return give(-EINVAL);
    threads_yield();
    file = storage_find(path);
    if (file >= 0 && (flags & O_CREAT) && (flags & O_EXCL))
        file = -EEXIST;
    else if (file == -ENOENT && (flags & O_CREAT))
        file = storage_create(path, 0);
    if (file < 0)
        return give(file);
    if ((flags & O_DIRECTORY) && !storage_is_dir(file))
        return give(-ENOTDIR);
    assert(!(flags & O_TRUNC));
    fd = memfd_create("sim", MFD_CLOEXEC);
    assert(fd >= 0 && fd < DESCRIPTORS);
    descriptors[fd].used = 1;
    descriptors[fd].file = file;
    return fd;
}

int __wrap_close(int fd)
{
    if (posix_file(fd) >= 0)
        memset(&descriptors[fd], 0, sizeof descriptors[fd]);
    return __real_close(fd);
}

ssize_t __wrap_pread(int fd, void *buf, size_t n, off_t off)
{
    int file = posix_file(fd);

    if (file < 0)
        return __real_pread(fd, buf, n, off);
    threads_yield();
    return power_is_cut() ? give(-EIO) : (ssize_t)storage_read(file, buf, n, (uint64_t)off);
}

ssize_t __wrap_pwrite(int fd, const void *buf, size_t n, off_t off)
{
    int file = posix_file(fd), rc;

    if (file < 0)
        return __real_pwrite(fd, buf, n, off);
    threads_yield();
    rc = storage_write(file, buf, n, (uint64_t)off);
    return rc ? give(rc) : (ssize_t)n;
}

int __wrap_fdatasync(int fd)
{
    int      file = posix_file(fd);
    uint64_t started;

    if (file < 0)
        return __real_fdatasync(fd);
    if (storage_is_dir(file))
        return give(storage_sync_names(file));
    started = storage_flush_start();
    threads_yield();
    return give(storage_flush_end(file, started));
}

int __wrap_fsync(int fd)
{
    int rc = __wrap_fdatasync(fd);

    if (!rc && posix_file(fd) >= 0)
        storage_sync_time(posix_file(fd));
    return rc;
}

/* Starts writing back; promises nothing. */
int __wrap_sync_file_range(int fd, off_t off, off_t n, unsigned flags)
{
    return posix_file(fd) < 0 ? __real_sync_file_range(fd, off, n, flags)
                           : give(power_is_cut() ? -EIO : 0);
}

int __wrap_ftruncate(int fd, off_t size)
{
    return posix_file(fd) < 0 ? __real_ftruncate(fd, size)
                           : give(storage_resize(posix_file(fd), (uint64_t)size));
}

int __wrap_posix_fallocate(int fd, off_t off, off_t n)
{
    int file = posix_file(fd);

    if (file < 0)
        return __real_posix_fallocate(fd, off, n);
    return (uint64_t)(off + n) > storage_size(file) ? -storage_resize(file, (uint64_t)(off + n))
                                                    : 0;
}

int __wrap_flock(int fd, int how)
{
    int file = posix_file(fd);

    if (file < 0)
        return __real_flock(fd, how);
    int want = how & LOCK_UN ? 0 : how & LOCK_SH ? SHARED : ALONE;
    for (int i = 0; i < DESCRIPTORS; i++)
        if (i != fd && descriptors[i].file == file && descriptors[i].locked + want > 2 * SHARED)
            return give(-EWOULDBLOCK);
    descriptors[fd].locked = want;
    return 0;
}

static int fill_stat(int file, struct stat *st)
{
    if (file < 0)
        return give(file);
    memset(st, 0, sizeof *st);
    st->st_mode = (storage_is_dir(file) ? S_IFDIR : S_IFREG) | 0700;
    st->st_nlink = storage_links(file);
    st->st_uid = geteuid();
    st->st_ino = (ino_t)file + 1;
    st->st_size = (off_t)storage_size(file);
    st->st_blocks = (st->st_size + 511) / 512;
    st->st_mtim.tv_sec = (time_t)(storage_written(file) / 1000000000u);
    st->st_mtim.tv_nsec = (long)(storage_written(file) % 1000000000u);
    return 0;
}

int __wrap_fstat(int fd, struct stat *st)
{
    return posix_file(fd) < 0 ? __real_fstat(fd, st)
                           : fill_stat(power_is_cut() ? -EIO : posix_file(fd), st);
}

int __wrap_stat(const char *path, struct stat *st)
{
    return simulated(path) ? fill_stat(storage_find(path), st) : __real_stat(path, st);
}

/* There are no links. */
int __wrap_lstat(const char *path, struct stat *st)
{
    return simulated(path) ? __wrap_stat(path, st) : __real_lstat(path, st);
}

char *__wrap_realpath(const char *path, char *resolved)
{
    struct stat st;

    if (!simulated(path))
        return __real_realpath(path, resolved);
    if (__wrap_stat(path, &st))
        return NULL;
    return resolved ? strcpy(resolved, path) : strdup(path);
}

static int fill_room(struct statvfs *st)
{
    memset(st, 0, sizeof *st);
    st->f_frsize = 4096;
    st->f_bavail = 1 << 20;
    return 0;
}

int __wrap_fstatvfs(int fd, struct statvfs *st)
{
    return posix_file(fd) < 0 ? __real_fstatvfs(fd, st) : fill_room(st);
}

int __wrap_statvfs(const char *path, struct statvfs *st)
{
    return simulated(path) ? fill_room(st) : __real_statvfs(path, st);
}

int __wrap_access(const char *path, int how)
{
    int rc;

    if (!simulated(path))
        return __real_access(path, how);
    rc = storage_find(path);
    return give(rc < 0 ? rc : 0);
}

int __wrap_mkdir(const char *path, mode_t mode)
{
    int rc;

    if (!simulated(path))
        return __real_mkdir(path, mode);
    rc = storage_create(path, 1);
    return give(rc < 0 ? rc : 0);
}

int __wrap_unlink(const char *path)
{
    return simulated(path) ? give(storage_unlink(path)) : __real_unlink(path);
}

int __wrap_rmdir(const char *path)
{
    return simulated(path) ? give(storage_remove_folder(path)) : __real_rmdir(path);
}

int __wrap_rename(const char *from, const char *to)
{
    return simulated(from) ? give(storage_rename(from, to, 0)) : __real_rename(from, to);
}

int __wrap_renameat2(int at, const char *from, int to_at, const char *to, unsigned flags)
{
    if (!simulated(from))
        return __real_renameat2(at, from, to_at, to, flags);
    if ((flags & RENAME_NOREPLACE) && storage_find(to) >= 0)
        return give(-EEXIST);
    return give(storage_rename(from, to, (flags & RENAME_EXCHANGE) != 0));
}
