/* file.c: whole reads and writes, and files that appear only when complete.
 *
 * A new file gets an unpredictable name beside the final one (so that the rename stays in one
 * filesystem) and is made by open(O_EXCL) rather than mkstemp, so that its mode follows the umask
 * without anybody asking for the umask. */
#include "data/file.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LOCK_TRIES = 100 }; // 2 seconds

#define FILE_PART_BYTES ((size_t)1 << 30) // Linux moves at most 2 GiB - 4 KiB in one call

int file_pread(int fd, void *buf, size_t n, uint64_t off, const char *path, struct err *err)
{
    char *p = buf;

    while (n > 0) {
        ssize_t got = pread(fd, p, n < FILE_PART_BYTES ? n : FILE_PART_BYTES, (off_t)off);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_set(err, -errno, "read %s at byte %" PRIu64 ": %s", path, off, strerror(errno));
        if (got == 0)
            return err_set(err, -EIO, "%s ends at byte %" PRIu64 ", but %zu more bytes were expected",
                           path, off, n);
        p += got;
        off += (uint64_t)got;
        n -= (size_t)got;
    }
    return 0;
}

int file_pwrite(int fd, const void *buf, size_t n, uint64_t off, const char *path, struct err *err)
{
    const char *p = buf;

    while (n > 0) {
        ssize_t put = pwrite(fd, p, n < FILE_PART_BYTES ? n : FILE_PART_BYTES, (off_t)off);

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0) {
            int rc = put < 0 ? errno : EIO;

            return err_set(err, -rc, "write %s at byte %" PRIu64 ": %s", path, off, strerror(rc));
        }
        p += put;
        off += (uint64_t)put;
        n -= (size_t)put;
    }
    return 0;
}

static void file_new_clear(struct file_new *f)
{
    free(f->path);
    free(f->temp);
    *f = (struct file_new){ .fd = -1 };
}

/* One try at a name nobody can foresee. 0 or -errno. */
static int file_new_try(struct file_new *f)
{
    uint64_t r;

    if (getrandom(&r, sizeof r, 0) != (ssize_t)sizeof r)
        return -EIO;
    free(f->temp);
    f->temp = NULL;
    if (asprintf(&f->temp, "%s.%016" PRIx64 ".tmp", f->path, r) < 0) {
        f->temp = NULL;
        return -ENOMEM;
    }
    f->fd = open(f->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    return f->fd < 0 ? -errno : 0;
}

int file_may_replace(const char *path, const char *const *inputs, size_t n, struct err *err)
{
    struct stat to, from;

    if (lstat(path, &to))
        return 0;
    if (!S_ISREG(to.st_mode))
        return err_misuse(err, "%s is there and is not a regular file: choose another name", path);
    for (size_t i = 0; i < n; i++)
        if (inputs[i] && !stat(inputs[i], &from) && from.st_dev == to.st_dev && from.st_ino == to.st_ino)
            return err_misuse(err, "%s is what is read: choose another name to write to", path);
    return 0;
}

int file_new_open(struct file_new *f, const char *path, struct err *err)
{
    int rc;

    *f = (struct file_new){ .fd = -1 };
    rc = file_may_replace(path, NULL, 0, err);
    if (rc)
        return rc;
    rc = -EEXIST;
    f->path = strdup(path);
    if (!f->path)
        return err_set(err, -ENOMEM, "no memory to create %s", path);
    for (int i = 0; i < 16 && rc == -EEXIST; i++)
        rc = file_new_try(f);
    if (rc) {
        err_set(err, rc, "create a temporary file beside %s: %s", path, strerror(-rc));
        file_new_clear(f);
    }
    return rc;
}

int file_sync_parent(const char *path, struct err *err)
{
    const char *slash = strrchr(path, '/');
    char       *dir = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    int         rc;

    if (!dir)
        return err_set(err, -ENOMEM, "no memory to sync the folder of %s", path);
    rc = file_sync_dir(dir, err);
    free(dir);
    return rc;
}

int file_new_commit(struct file_new *f, struct err *err)
{
    int rc = 0;

    assert(f->path && f->fd >= 0);
    if (fsync(f->fd))
        rc = err_set(err, -errno, "fsync %s: %s", f->temp, strerror(errno));
    if (close(f->fd) && !rc)
        rc = err_set(err, -errno, "close %s: %s", f->temp, strerror(errno));
    if (!rc && rename(f->temp, f->path))
        rc = err_set(err, -errno, "rename %s to %s: %s", f->temp, f->path, strerror(errno));
    if (rc)
        unlink(f->temp);
    else
        rc = file_sync_parent(f->path, err);
    file_new_clear(f);
    return rc;
}

void file_new_abort(struct file_new *f)
{
    if (!f->path)
        return;
    close(f->fd);
    unlink(f->temp);
    file_new_clear(f);
}

/* PATH.0123456789abcdef.tmp? */
static int is_new_name(const char *name)
{
    size_t n = strlen(name), tail = strlen(".0123456789abcdef.tmp");

    return n > tail && name[n - tail] == '.' &&
           strspn(name + n - tail + 1, "0123456789abcdef") == 16 && !strcmp(name + n - 4, ".tmp");
}

void file_new_clean(const char *dir)
{
    DIR           *d = opendir(dir);
    struct dirent *e;

    while (d && (e = readdir(d)))
        if (is_new_name(e->d_name))
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *walk)
{
    (void)st, (void)type, (void)walk;
    remove(path);
    return 0;
}

void file_remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int file_lock(int fd, int shared)
{
    const struct timespec pause = { .tv_nsec = 20000000 };

    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0 || errno != EWOULDBLOCK)
            return 0;
        nanosleep(&pause, NULL);
    }
    return -EBUSY;
}

int file_sync_dir(const char *dir, struct err *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = 0;

    if (fd < 0)
        return err_set(err, -errno, "open folder %s: %s", dir, strerror(errno));
    if (fsync(fd))
        rc = err_set(err, -errno, "fsync folder %s: %s", dir, strerror(errno));
    close(fd);
    return rc;
}

int file_open_read(const char *path, int *fd, uint64_t *size, struct err *err)
{
    struct stat st;
    int         f = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a FIFO must not block

    if (f < 0) {
        int rc = err_set(err, -errno, "open %s: %s", path, strerror(errno));

        if (err)
            err->misuse = rc == -ENOENT; // a name that is wrong
        return rc;
    }
    if (fstat(f, &st)) {
        int rc = err_set(err, -errno, "stat %s: %s", path, strerror(errno));

        close(f);
        return rc;
    }
    if (!S_ISREG(st.st_mode)) {
        close(f);
        return err_misuse(err, "%s is not a regular file", path);
    }
    *fd = f;
    *size = (uint64_t)st.st_size;
    return 0;
}
