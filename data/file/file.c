/* file.c: opens files by name, reads and writes whole ranges, and locks. file_new.c makes new
 * files; file_identity.c tells whether a file is still the one that was there. */
#include "data/file/file.h"

#include "data/file/file_walk.h"

#include <fcntl.h>
#include <libgen.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum { LOCK_TRIES = 100 }; // 2 seconds

#define FILE_PART_BYTES ((size_t)1 << 30) // Linux moves at most 2 GiB - 4 KiB in one call

void file_close(int fd)
{
    if (fd >= 0)
        close(fd);
}

void file_close_dir(DIR *d)
{
    if (d)
        closedir(d);
}

char *file_path(struct err *err, const char *fmt, ...)
{
    char   *path = NULL;
    va_list ap;

    va_start(ap, fmt);
    if (vasprintf(&path, fmt, ap) < 0) {
        err_set(err, -ENOMEM, "no memory for a path");
        path = NULL;
    }
    va_end(ap);
    return path;
}

char *file_absolute(const char *path, struct err *err)
{
    char *cwd = *path == '/' ? NULL : getcwd(NULL, 0), *full = NULL;

    if (*path == '/' || cwd)
        full = file_path(err, "%s%s%s", cwd ? cwd : "", cwd ? "/" : "", path);
    else
        err_set(err, -errno, "the working directory: %s", strerror(errno));
    free(cwd);
    return full;
}

size_t file_trimmed(const char *path)
{
    size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/')
        n--;
    return n;
}

char *file_folder(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
}

char *file_beside(const char *path, const char *name, struct err *err)
{
    const char *slash = strrchr(path, '/');

    return file_path(err, "%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, name);
}

int file_pread(int fd, void *buf, size_t n, uint64_t off, const char *path, struct err *err)
{
    char *p = buf;

    while (n > 0) {
        ssize_t got = pread(fd, p, n < FILE_PART_BYTES ? n : FILE_PART_BYTES, (off_t)off);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_set(err, -errno, "read %s at byte %" PRIu64 ": %s", path, off,
                           strerror(errno));
        if (got == 0)
            return err_set(err, -EIO, "%s ends at byte %" PRIu64 ", but %zu more bytes were "
                           "expected", path, off, n);
        p += got;
        off += (uint64_t)got;
        n -= (size_t)got;
    }
    return 0;
}

int file_pread_same(int fd, void *buf, size_t n, uint64_t off, const struct stat *was,
                    const char *path, struct err *err)
{
    int         rc = file_pread(fd, buf, n, off, path, err);
    struct stat now;

    if (!rc && fstat(fd, &now))
        return err_set(err, -errno, "stat %s: %s", path, strerror(errno));
    return rc || file_unwritten(&now, was)
               ? rc : err_set(err, -EIO, "%s was changed while it was read: wait until it is "
                              "complete, and try again", path);
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

int file_set_length(int fd, const char *path, uint64_t keep, uint64_t bytes, struct err *err)
{
    struct stat    st;
    struct statvfs fs;
    int            rc = 0;

    if (fstat(fd, &st) || fstatvfs(fd, &fs))
        return err_set(err, -errno, "stat %s: %s", path, strerror(errno));
    uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize;
    uint64_t more = bytes > (uint64_t)st.st_size ? bytes - (uint64_t)st.st_size : 0;
    if ((uint64_t)st.st_size > bytes)
        rc = ftruncate(fd, (off_t)bytes) ? errno : 0;
    else if (more > room) // an attempt would first fill the disk
        rc = ENOSPC;
    while (!rc && bytes > keep &&
           (rc = posix_fallocate(fd, (off_t)keep, (off_t)(bytes - keep))) == EINTR)
        rc = 0; // a signal: the caller stops when the room is allocated
    if (rc && more && ftruncate(fd, st.st_size)) // gives back what the attempt took
        rc = errno;
    if (rc == ENOSPC)
        return err_set(err, -rc, "%s needs %" PRIu64 " bytes more, and its file system has %" PRIu64
                       " free", path, more ? more : bytes - keep, room);
    return rc ? err_set(err, -rc, "make %s %" PRIu64 " bytes long: %s", path, bytes, strerror(rc))
              : 0;
}

int file_sync_parent(const char *path, struct err *err)
{
    char *dir = file_folder(path);
    int   rc = dir ? file_sync_dir(dir, err)
                   : err_set(err, -ENOMEM, "no memory to sync the folder of %s", path);

    free(dir);
    return rc;
}

/* Whether something is mounted there, or -errno if nobody could look. It may be a folder of the
 * same drive (bind mounts). */
static int is_mounted(const char *path)
{
    struct statx x;

    if (file_statx(&x, path, AT_SYMLINK_NOFOLLOW, 0))
        return errno == ENOENT ? 0 : -errno; // it was removed just now
    return (x.stx_attributes_mask & x.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

/* In a sticky folder only the owner of a file, or of the folder, renames it. */
static int is_kept(const char *path, uid_t owner)
{
    struct stat dir;
    char       *up = strdup(path);
    int         kept = up && geteuid() && !stat(dirname(up), &dir) && dir.st_mode & S_ISVTX &&
               dir.st_uid != geteuid() && owner != geteuid();

    free(up);
    return kept;
}

static const char *fixed_by_attribute(uint64_t has)
{
    return has & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND)
               ? "is immutable or append-only: take the attribute away first (chattr -i -a)" : NULL;
}

int file_check_folder(const char *dir, struct err *err)
{
    struct statx x;
    const char  *fixed = file_statx(&x, dir, 0, 0)
                             ? NULL : fixed_by_attribute(x.stx_attributes_mask & x.stx_attributes);

    return fixed ? err_misuse(err, "%s %s", dir, fixed) : 0;
}

const char *file_fixed(const char *path)
{
    struct statx x;

    if (file_statx(&x, path, AT_SYMLINK_NOFOLLOW, 0))
        return NULL;
    uint64_t has = x.stx_attributes_mask & x.stx_attributes;
    if (has & STATX_ATTR_MOUNT_ROOT)
        return "is mounted: unmount it first";
    if (fixed_by_attribute(has))
        return fixed_by_attribute(has);
    int denied = S_ISDIR(x.stx_mode) && faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) &&
                 errno == EACCES;
    if (denied && x.stx_uid == geteuid())
        return "is write-protected: allow writing first (chmod u+wx)";
    if (denied || is_kept(path, x.stx_uid))
        return "is another user's, who alone may move it: let its owner move it elsewhere";
    return NULL;
}

int file_open_fail(const char *path, int rc, struct err *err)
{
    const char *fixed = rc == -EPERM ? file_fixed(path) : NULL;

    if (rc == -ENODEV) // of file_open_device
        return err_set(err, rc, "%s is neither a file nor a block device", path);
    return fixed ? err_set(err, rc, "%s %s", path, fixed)
                 : err_set(err, rc, "open %s: %s", path, strerror(-rc));
}

void file_remove_tree(const char *path)
{
    struct stat      st;
    struct file_walk w;

    if (lstat(path, &st) || (S_ISDIR(st.st_mode) && is_mounted(path)))
        return;
    if (S_ISDIR(st.st_mode)) {
        file_walk_begin(&w, path, NULL);
        while (file_walk_next(&w))
            file_remove_tree(w.path);
        file_walk_end(&w, 0, NULL);
    }
    remove(path);
}

char *file_real(const char *path)
{
    char *at = realpath(path, NULL);

    return at ? at : realpath(path, NULL);
}

int file_same_mount(const char *a, const char *b)
{
    struct statx x, y;

    if (file_statx(&x, a, 0, STATX_MNT_ID) || file_statx(&y, b, 0, STATX_MNT_ID))
        return file_is_absent(errno) ? 0 : -errno;
    return x.stx_mask & y.stx_mask & STATX_MNT_ID
               ? x.stx_mnt_id == y.stx_mnt_id
               : x.stx_dev_major == y.stx_dev_major && x.stx_dev_minor == y.stx_dev_minor;
}

char *file_mount_point(const char *path)
{
    char *at = realpath(path, NULL), *up = at ? file_folder(at) : NULL;

    while (up && strcmp(up, at) && file_same_mount(up, at) > 0) {
        free(at);
        at = up;
        up = file_folder(at);
    }
    free(up);
    return at;
}

int file_mounted(char **found, const char *path, struct err *err)
{
    struct stat      st;
    struct file_walk w;
    int              is = is_mounted(path);

    *found = is > 0 ? strdup(path) : NULL;
    if (is < 0 || (is && !*found))
        return err_set(err, is < 0 ? is : -ENOMEM, "%s cannot be looked at: %s", path,
                       strerror(is < 0 ? -is : ENOMEM));
    int rc = is ? 0 : file_stat(path, &st, err);
    if (rc <= 0 || !S_ISDIR(st.st_mode) || (access(path, R_OK | X_OK) && errno == EACCES))
        return rc < 0 ? rc : 0;
    rc = file_walk_begin(&w, path, err);
    while (!rc && !*found && file_walk_next(&w))
        rc = file_mounted(found, w.path, err);
    return file_walk_end(&w, rc, err);
}

int file_lock(int fd, int shared)
{
    const struct timespec pause = { .tv_nsec = 20000000 };

    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0)
            return 0;
        if (errno != EWOULDBLOCK)
            return errno == ENOSYS || errno == EOPNOTSUPP ? -ENOLCK : -errno;
        nanosleep(&pause, NULL);
    }
    return -EBUSY;
}

int file_lock_fail(int rc, const char *path, const char *busy, struct err *err)
{
    if (rc == -EBUSY)
        return err_set(err, rc, "%s is in use by another process%s", path, busy);
    if (rc == -ENOLCK)
        return err_set(err, rc, "%s cannot be locked: its file system has no locks, so a second "
                       "process could not be kept from it; put it on a local one", path);
    return err_set(err, rc, "lock %s: %s", path, strerror(-rc));
}

int file_sync_dir(const char *dir, struct err *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = 0;

    if (fd < 0 && file_is_denied(-errno)) { // a folder may be written to and not be read
        sync();
        return 0;
    }
    if (fd < 0)
        return err_set(err, -errno, "open folder %s: %s", dir, strerror(errno));
    if (fsync(fd) && errno != EINVAL) // on some file systems there is nothing to do
        rc = err_set(err, -errno, "fsync folder %s: %s", dir, strerror(errno));
    close(fd);
    return rc;
}

static const char *kind_of(const struct stat *st)
{
    return S_ISLNK(st->st_mode)    ? "a symbolic link"
           : S_ISDIR(st->st_mode)  ? "a folder"
           : S_ISFIFO(st->st_mode) ? "a pipe"
           : S_ISSOCK(st->st_mode) ? "a socket"
                                   : "a device";
}

int file_refuse_links(const char *path, const struct stat *st, struct err *err)
{
    return !S_ISREG(st->st_mode) || st->st_nlink < 2
               ? 0
               : err_misuse(err, "%s has other names too (hard links), where what is written to it "
                            "would be seen, as a copy by cp -al has: copy it (cp), and give the "
                            "copy this name", path);
}

static int stat_check_own(const char *path, const struct stat *st, int written, struct err *err)
{
    if (!S_ISREG(st->st_mode))
        return err_misuse(err, "%s is %s; a regular file is expected there", path, kind_of(st));
    return written ? file_refuse_links(path, st, err) : 0;
}

int file_check_own(const char *path, int written, struct err *err)
{
    struct stat st;

    return lstat(path, &st) ? 0 : stat_check_own(path, &st, written, err);
}

int file_open_own(const char *path, int flags, int *fd, struct err *err)
{
    struct stat st;
    int f = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags, 0666), rc = -errno;

    if (f < 0) {
        *fd = -1;
        if (!lstat(path, &st) && !S_ISREG(st.st_mode))
            return stat_check_own(path, &st, 0, err);
        return file_open_fail(path, rc, err);
    }
    if (flags & O_CREAT)
        file_give_owner(f, path);
    rc = fstat(f, &st) ? err_set(err, -errno, "stat %s: %s", path, strerror(errno))
                       : stat_check_own(path, &st, 1, err);
    if (rc)
        close(f);
    *fd = rc ? -1 : f;
    return rc;
}

int file_is_block(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISBLK(st.st_mode);
}

int file_drive(const char *path, dev_t *drive)
{
    struct stat st;
    int         rc = stat(path, &st);

    if (rc && errno == ENOENT) { // it does not exist yet: its folder's
        char *copy = strdup(path);

        rc = copy ? stat(dirname(copy), &st) : -1;
        free(copy);
    }
    if (rc)
        return -errno;
    *drive = S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev;
    return 0;
}

int file_open_was(const char *path, int *fd, struct stat *was, struct err *err)
{
    struct stat st = { 0 };
    int         f = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = 0; // a FIFO must not block
    int         socket = f < 0 && errno == ENXIO && !stat(path, &st) && S_ISSOCK(st.st_mode);

    if (socket) {
        rc = err_misuse(err, "%s is a socket, not a regular file", path);
    } else if (f < 0 && errno == ENOENT && !strcmp(path, "-")) {
        rc = err_misuse(err, "- (standard input) is not read here: give a file");
    } else if (f < 0 || fstat(f, &st)) {
        rc = err_set(err, -errno, "%s %s: %s", f < 0 ? "open" : "stat", path, strerror(errno));
        if (err)
            err->misuse = rc == -ENOENT || rc == -ENOTDIR; // a wrong name
    } else if (!S_ISREG(st.st_mode)) {
        rc = err_misuse(err, "%s is %s, not a regular file", path, kind_of(&st));
    }
    if (rc && f >= 0)
        close(f);
    *fd = rc ? -1 : f;
    *was = st;
    return rc;
}

int file_open_read(const char *path, int *fd, uint64_t *size, struct err *err)
{
    struct stat was;
    int         rc = file_open_was(path, fd, &was, err);

    *size = rc ? 0 : (uint64_t)was.st_size;
    return rc;
}

void file_forget(const char *path)
{
    uint64_t size;
    int      fd;

    if (file_open_read(path, &fd, &size, NULL))
        return;
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

int file_read_whole(char **out, size_t *n, const char *path, uint64_t most, struct err *err)
{
    uint64_t size;
    int      fd, rc = file_open_read(path, &fd, &size, err);

    *out = NULL;
    *n = 0;
    if (rc)
        return rc;
    if (size > most)
        rc = err_misuse(err, "%s has %" PRIu64 " bytes, but such a file may have at most %" PRIu64,
                        path, size, most);
    else if (!(*out = calloc(1, (size_t)size + 1)))
        rc = err_set(err, -ENOMEM, "no memory for the %" PRIu64 " bytes of %s", size, path);
    else
        rc = file_pread(fd, *out, *n = (size_t)size, 0, path, err);
    close(fd);
    if (rc) {
        free(*out);
        *out = NULL;
        *n = 0;
    }
    return rc;
}
