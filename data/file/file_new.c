/* file_new.c: makes files and folders that appear under their name only when complete.
 *
 * New ones are next to the final name (so that the rename stays in one file system), as
 * PATH.HEX.tmp, or a folder as PATH.new-HEX. They are made with open(O_EXCL) instead of mkstemp, so
 * that their mode follows the umask without asking for it.
 *
 * What a killed process leaves is removed by the next one that makes the same PATH. Two things make
 * this safe. HEX is a random number of 8 digits and its checksum, so no other name looks like ours.
 * A living maker holds a lock on what it makes. If there are no locks, nothing is removed. */
#include "data/file/file.h"

#include "data/base/crc32c.h"
#include "data/base/machine.h"
#include "data/file/file_walk.h"

#include <assert.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { HEX = 16, TRIES = 16, COPY_BYTES = 1 << 16 };

static const char *const before[] = { ".", ".new-" }; // before HEX; for a file, for a folder
static const char *const after[] = { ".tmp", "" };    // behind HEX

static uint32_t sum_of(uint32_t drawn) { return crc32c(0, &drawn, sizeof drawn); }

static void file_new_clear(struct file_new *f)
{
    free(f->path);
    free(f->temp);
    *f = (struct file_new){ .fd = -1 };
}

static int is_hex(const char *text) { return strspn(text, "0123456789abcdef") >= HEX; }

int file_new_is(const char *name, const char *base, int folder)
{
    size_t   len = strlen(base);
    uint32_t drawn, sum;

    if (strncmp(name, base, len) || strncmp(name + len, before[folder], strlen(before[folder])))
        return 0;
    name += len + strlen(before[folder]);
    return is_hex(name) && !strcmp(name + HEX, after[folder]) &&
           sscanf(name, "%8" SCNx32 "%8" SCNx32, &drawn, &sum) == 2 && sum == sum_of(drawn);
}

/* Whether it belongs to this user. For root, also if it belongs to the user to whom root has given
 * it: the owner of the folder, which nobody could look at if -errno is returned. */
static int is_this_users(const struct stat *st, const char *dir)
{
    struct stat at;

    if (st->st_uid == geteuid() || geteuid())
        return st->st_uid == geteuid();
    return stat(dir, &at) ? -errno : st->st_uid == at.st_uid;
}

/* Opens the file or folder at `path`, and locks it, if it belongs to this user and no living
 * process holds it. Otherwise returns -errno, -EBUSY if it is no such thing, or if it is held. */
static int open_dead(const char *path, const char *dir, int folder, int flags)
{
    struct stat st;
    int         fd = open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int         rc = fd < 0 || fstat(fd, &st) ? -errno : is_this_users(&st, dir);

    if (rc >= 0)
        rc = !rc || !(folder ? S_ISDIR(st.st_mode) : S_ISREG(st.st_mode)) ? -EBUSY
             : flock(fd, LOCK_EX | LOCK_NB)                               ? -errno : 0;
    if (!rc)
        return fd;
    file_close(fd);
    return rc == -EWOULDBLOCK ? -EBUSY : rc;
}

void file_new_remove_dead(const struct file_walk *w, int folder)
{
    int fd = open_dead(w->path, w->dir, folder, O_RDONLY);

    if (fd >= 0)
        file_remove_tree(w->path);
    file_close(fd);
}

static int begin_beside(struct file_walk *w, const char *path, const char **base, struct err *err)
{
    const char *slash = strrchr(path, '/');
    char       *dir = file_folder(path);
    int         rc = file_walk_begin(w, dir ? dir : "", err);

    *base = slash ? slash + 1 : path;
    w->dir = dir;
    return rc;
}

static int end_beside(struct file_walk *w, int rc, struct err *err)
{
    rc = file_walk_end(w, rc, err);
    free((void *)(uintptr_t)w->dir);
    return rc;
}

void file_new_clear_left(const char *path, int folder)
{
    const char      *base;
    struct file_walk w;

    begin_beside(&w, path, &base, NULL);
    while (file_walk_next(&w))
        if (file_new_is(w.name, base, folder))
            file_new_remove_dead(&w, folder);
    end_beside(&w, 0, NULL);
}

/* Tries a random name once. 0 or -errno. -EEXIST also if another process took it for a dead one's
 * before it was locked. */
static int file_new_try(struct file_new *f, mode_t mode)
{
    uint32_t    drawn;
    struct stat st;

    if (getrandom(&drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn)
        return -EIO;
    free(f->temp);
    f->temp = file_path(NULL, "%s%s%08" PRIx32 "%08" PRIx32 "%s", f->path, before[f->folder],
                        drawn, sum_of(drawn), after[f->folder]);
    if (!f->temp)
        return -ENOMEM;
    if (f->folder && mkdir(f->temp, mode))
        return -errno;
    f->fd = f->folder ? open(f->temp, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
                      : open(f->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (f->fd < 0) {
        int rc = -errno;

        if (f->folder)
            rmdir(f->temp);
        return rc == -ENOENT && f->folder ? -EEXIST : rc;
    }
    file_give_owner(f->fd, f->temp);
    if ((flock(f->fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) ||
        (!fstat(f->fd, &st) && !st.st_nlink)) {
        close(f->fd);
        f->fd = -1;
        return -EEXIST;
    }
    return 0;
}

/* What is made in an append-only folder can neither get its name nor be removed. */
static int folder_check(const char *path, struct err *err)
{
    char *dir = file_folder(path);
    int   rc = dir ? file_check_folder(dir, err) : 0;

    free(dir);
    return rc;
}

/* clears: what killed processes left for this path is removed first. */
static int file_new_make(struct file_new *f, const char *path, int folder, mode_t mode, int clears,
                         struct err *err)
{
    size_t len = folder ? file_trimmed(path) : strlen(path);
    int    rc;

    *f = (struct file_new){ .fd = -1, .folder = folder, .path = strndup(path, len) };
    if (!f->path)
        return err_set(err, -ENOMEM, "no memory to create %s", path);
    if ((rc = folder_check(f->path, err))) {
        file_new_clear(f);
        return rc;
    }
    rc = -EEXIST;
    if (clears)
        file_new_clear_left(f->path, folder);
    for (int i = 0; i < TRIES && rc == -EEXIST; i++)
        rc = file_new_try(f, mode);
    if (rc) {
        err_set(err, rc, "create a temporary %s beside %s: %s", folder ? "folder" : "file", path,
                strerror(-rc));
        file_new_clear(f);
    }
    return rc;
}

/* ---- what the old one allowed: its mode, its owner, its access control lists ---- */

enum { ACL_BYTES = 4096 }; // 511 entries

static const char *const lists[] = { "system.posix_acl_access", "system.posix_acl_default" };

/* Gives a folder or file the same access control list. A list that it got only from the folder
 * around it is removed. 1: both have the same. */
static int like_list(int fd, const char *old, const char *list)
{
    char    text[ACL_BYTES];
    ssize_t n = lgetxattr(old, list, text, sizeof text);

    if (n > 0)
        return !fsetxattr(fd, list, text, (size_t)n, 0);
    return (n == 0 || errno == ENODATA || errno == EOPNOTSUPP) &&
           (!fremovexattr(fd, list) || errno == ENODATA || errno == EOPNOTSUPP);
}

void file_like_at(const char *path, const char *old)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return;
    file_like(fd, old);
    close(fd);
}

/* If the group or the lists cannot be kept, the new one gets no more rights than everybody has.
 * (With a list, the mode's rights of the group are the list's mask.) */
void file_like(int fd, const char *old)
{
    struct stat was, st;

    if (lstat(old, &was))
        return;
    int    folder = S_ISDIR(was.st_mode) != 0;
    mode_t mode = was.st_mode & (folder ? 03777 : 0777);
    int    stays = !fchown(fd, was.st_uid, was.st_gid) || !fchown(fd, -1u, was.st_gid);

    stays |= !fstat(fd, &st) && st.st_gid == was.st_gid;
    for (int i = 0; i <= folder; i++)
        stays &= like_list(fd, old, lists[i]);
    if (!stays)
        mode = (mode & 01707) | (mode & 07) << 3;
    if (fchmod(fd, mode)) // on a file system without modes
        return;
}

void file_like_writable(int fd, const char *old)
{
    struct stat st;

    file_like(fd, old);
    if (fstat(fd, &st))
        return;
    mode_t owner = S_ISDIR(st.st_mode) ? S_IRWXU : S_IRUSR | S_IWUSR;
    if ((st.st_mode & owner) != owner && fchmod(fd, (st.st_mode & 03777) | owner))
        errno = 0; // then writing fails
}

void file_new_like_folder(const struct file_new *f)
{
    struct stat      st;
    struct file_walk w;

    if (lstat(f->path, &st) || !S_ISDIR(st.st_mode))
        return;
    file_walk_begin(&w, f->temp, NULL);
    while (file_walk_next(&w)) {
        char *old = file_path(NULL, "%s/%s", f->path, w.name);
        int   fd = openat(f->fd, w.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

        if (fd >= 0 && old && !lstat(old, &st) && S_ISREG(st.st_mode))
            file_like(fd, old);
        file_close(fd);
        free(old);
    }
    file_walk_end(&w, 0, NULL);
    file_like(f->fd, f->path);
}

int file_have_folder(const char *path, const char *of, struct err *err)
{
    if (file_make_folder(path))
        return errno == EEXIST ? 0 : err_set(err, -errno, "mkdir %s: %s", path, strerror(errno));
    int fd = open(path, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    file_give_owner_of(fd, of);
    file_close(fd);
    return file_sync_parent(path, err);
}

int file_new_open(struct file_new *f, const char *path, struct err *err)
{
    struct stat was;
    int         there = file_stat(path, &was, err), rc = there < 0 ? there : 0;

    *f = (struct file_new){ .fd = -1 };
    if (there > 0 && !S_ISREG(was.st_mode))
        return err_misuse(err, "%s is there and is not a regular file: choose another name", path);
    rc = rc ? rc : file_new_make(f, path, 0, 0666, 1, err);
    if (!rc && there)
        file_like(f->fd, path);
    f->there = !rc && there;
    f->was = was;
    return rc;
}

/* Opens f->temp if it is a dead process's, has no other name and fits. 1, 0 or -errno. */
static int find_one(struct file_new *f, const char *dir, int (*fits)(void *ctx, int fd), void *ctx)
{
    struct stat st;
    int         fd = open_dead(f->temp, dir, 0, O_RDWR), rc;

    // another user's file that this one may not open is not his: none found
    if (file_is_denied(fd) && !lstat(f->temp, &st) && !is_this_users(&st, dir))
        return 0;
    if (fd < 0)
        return file_is_unread(fd) ? fd : 0;
    rc = fstat(fd, &st) ? -errno : st.st_nlink == 1;
    rc = rc > 0 ? file_names(f->temp, fd) : rc;
    rc = rc > 0 ? fits(ctx, fd) : rc;
    f->fd = rc > 0 ? fd : -1;
    if (rc <= 0)
        close(fd);
    return rc;
}

int file_new_find(struct file_new *f, const char *path, int (*fits)(void *ctx, int fd), void *ctx,
                  struct err *err)
{
    const char      *base;
    struct file_walk w;

    *f = (struct file_new){ .fd = -1 };
    int rc = begin_beside(&w, path, &base, err);

    if (file_is_absent(-rc) || (file_is_denied(rc) && access(w.dir, R_OK)))
        rc = 0; // whoever may not read the folder finds nothing in it
    while (rc == 0 && file_walk_next(&w)) {
        if (!file_new_is(w.name, base, 0))
            continue;
        f->temp = file_path(NULL, "%.*s%s", (int)(base - path), path, w.name);
        rc = f->temp ? find_one(f, w.dir, fits, ctx) : -ENOMEM;
        if (rc < 0)
            err_set(err, rc, "%s, which an earlier process left, cannot be read now: %s; try "
                    "again, or remove it to begin anew", w.path, strerror(-rc));
        if (rc <= 0)
            free(f->temp);
    }
    rc = end_beside(&w, rc, err);
    if (rc <= 0)
        return *f = (struct file_new){ .fd = -1 }, rc;
    f->path = strdup(path);
    rc = f->path ? file_stat(path, &f->was, err)
                 : err_set(err, -ENOMEM, "no memory to create %s", path);
    f->there = rc > 0;
    if (rc > 0 && !S_ISREG(f->was.st_mode))
        rc = err_misuse(err, "%s is there and is not a regular file: choose another name", path);
    if (rc > 0)
        file_like(f->fd, path);
    if (rc >= 0)
        return 1;
    file_new_keep(f);
    return rc;
}

/* From its beginning, nobody can see more of it than of the folder that it may replace. */
int file_new_folder(struct file_new *f, const char *path, struct err *err)
{
    struct stat old;
    int         rc = file_new_make(f, path, 1, 0777, 1, err);

    if (!rc && !lstat(f->path, &old) && S_ISDIR(old.st_mode))
        file_like_writable(f->fd, f->path);
    return rc;
}

int file_new_take(struct file_new *f, const char *path, const char *temp, int fd, struct err *err)
{
    struct stat st;
    char       *dir = file_folder(path);
    int         own = !dir ? -ENOMEM : fstat(fd, &st) ? -errno : is_this_users(&st, dir);

    free(dir);
    if (own <= 0)
        return own ? err_set(err, own, "%s cannot be looked at: %s", temp, strerror(-own)) : 0;
    *f = (struct file_new){ .fd = fd, .folder = 1, .path = strndup(path, file_trimmed(path)),
                            .temp = strdup(temp) };
    if (f->path && f->temp)
        return 1;
    free(f->path);
    free(f->temp);
    *f = (struct file_new){ .fd = -1 };
    return err_set(err, -ENOMEM, "no memory to create %s", path);
}

int file_new_scratch(struct file_new *f, const char *path, struct err *err)
{
    return file_new_make(f, path, 1, 0700, 1, err);
}

int file_new_aside(struct file_new *f, const char *path, const char *base, struct err *err)
{
    int rc = file_new_make(f, base, 1, 0700, 0, err);

    if (rc || !rename(path, f->temp)) // replaces the empty folder
        return rc;
    rc = err_set(err, -errno, "rename %s to %s: %s", path, f->temp, strerror(errno));
    file_new_abort(f);
    return rc;
}

int file_new_rename(struct file_new *f, const char *to, struct err *err)
{
    char *temp = strdup(to);
    int   rc = temp ? file_rename_new(f->temp, to, err)
                    : err_set(err, -ENOMEM, "no memory to rename %s", f->temp);

    free(rc ? temp : f->temp);
    f->temp = rc ? f->temp : temp;
    return rc;
}

/* Returns 1 if the file that file_new_open found is at the path, unchanged; 0 if nothing is; or
 * -errno. -EEXIST: another file is. */
static int find_old(const struct file_new *f, const char *path)
{
    struct stat st;
    int         rc = file_stat(path, &st, NULL);

    return rc <= 0 || (f->there && file_same(&st, &f->was) && file_unwritten(&st, &f->was))
               ? rc : -EEXIST;
}

/* Gives the file its name. 0, or an errno. EEXIST: another file has the name. */
static int name_take(const struct file_new *f)
{
    int old = find_old(f, f->path);

    if (old < 0)
        return -old;
    if (renameat2(AT_FDCWD, f->temp, AT_FDCWD, f->path, old ? RENAME_EXCHANGE : RENAME_NOREPLACE))
        return errno;
    if (!old)
        return 0;
    old = find_old(f, f->temp); // looked at once more: another may have come since
    if (old > 0 && !unlink(f->temp))
        return 0;
    int e = old > 0 ? errno : old ? -old : EEXIST;
    if (renameat2(AT_FDCWD, f->temp, AT_FDCWD, f->path, RENAME_EXCHANGE))
        return errno;
    return e;
}

static int file_new_name(const struct file_new *f, struct err *err)
{
    int e = f->folder ? EINVAL : name_take(f);

    if (file_lacks_flags(e)) { // there is a moment between look and rename, then
        int old = f->folder ? 0 : find_old(f, f->path);

        e = old < 0 ? -old : rename(f->temp, f->path) ? errno : 0;
    }
    if (e == EEXIST && !f->folder)
        return err_set(err, -e, "%s was made or changed by another program meanwhile: it stays; "
                       "move it elsewhere, or choose another name, and try again", f->path);
    if (f->folder && (e == ENOTEMPTY || e == EBUSY || e == EEXIST))
        return err_set(err, -e, "%s is no empty folder by now, or is mounted or a subvolume, which "
                       "no rename replaces: choose another name", f->path);
    return e ? err_set(err, -e, "rename %s to %s: %s", f->temp, f->path, strerror(e)) : 0;
}

int file_new_finish(struct file_new *f, struct err *err)
{
    assert(f->path && f->fd >= 0);
    int rc = !fsync(f->fd) ? 0 : err_set(err, -errno, "fsync %s: %s", f->temp, strerror(errno));

    if (f->folder)
        file_new_like_folder(f);
    if (rc || (rc = file_new_name(f, err)))
        return rc;
    rc = file_sync_parent(f->path, err);
    if (rc && f->folder && file_names(f->path, f->fd) > 0 && !rename(f->path, f->temp))
        return rc; // the same command would find a folder that is not empty
    if (close(f->fd) && !rc)
        rc = err_set(err, -errno, "close %s: %s", f->path, strerror(errno));
    file_new_clear(f);
    return rc;
}

void file_new_abort(struct file_new *f)
{
    if (!f->path)
        return;
    if (f->folder)
        file_remove_tree(f->temp);
    else
        unlink(f->temp);
    close(f->fd);
    file_new_clear(f);
}

void file_new_keep(struct file_new *f)
{
    if (f->fd >= 0 && f->temp)
        close(f->fd);
    file_new_clear(f);
}

int file_rename_new(const char *from, const char *to, struct err *err)
{
    struct stat st;
    int         failed = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);

    if (failed && file_lacks_flags(errno)) {
        failed = lstat(to, &st) == 0;
        errno = EEXIST;
        failed = failed || rename(from, to);
    }
    if (failed && errno == EEXIST)
        return err_set(err, -EEXIST, "%s was made by another program meanwhile: it stays; move it "
                       "elsewhere, and try again", to);
    return failed ? err_set(err, -errno, "rename %s to %s: %s", from, to, strerror(errno)) : 0;
}

int file_put_aside(char **to, const char *path, const char *word, struct err *err)
{
    char hex[HEX + 1];
    int  rc = machine_hex(hex, HEX, err);

    *to = rc ? NULL : file_path(err, "%s.%s-%s", path, word, hex);
    rc = rc ? rc : *to ? file_rename_new(path, *to, err) : -ENOMEM;
    return rc ? rc : file_sync_parent(path, err);
}

int file_write_whole(const char *path, const void *bytes, size_t n, struct err *err)
{
    struct file_new f;
    int             rc = file_new_open(&f, path, err);

    rc = rc ? rc : file_pwrite(f.fd, bytes, n, 0, path, err);
    if (!rc)
        return file_new_commit(&f, err);
    file_new_abort(&f);
    return rc;
}

static int copy(const char *from, const char *to, uint64_t most, int like, struct err *err)
{
    struct file_new f = { 0 };
    char           *buf = malloc(COPY_BYTES);
    uint64_t        size = 0;
    int             fd = -1, rc = buf ? 0 : err_set(err, -ENOMEM, "no memory to copy %s", from);

    rc = rc ? rc : file_open_read(from, &fd, &size, err);
    if (!rc && size > most)
        rc = err_misuse(err, "%s has %" PRIu64 " bytes, but such a file may have at most %" PRIu64,
                        from, size, most);
    rc = rc ? rc : file_new_open(&f, to, err);
    if (!rc && like)
        file_like_writable(f.fd, from);
    int shared = !rc && !ioctl(f.fd, FICLONE, fd); // their blocks, where the file system does that
    for (uint64_t off = 0, n; off < size && !rc && !shared; off += n) {
        n = size - off < COPY_BYTES ? size - off : COPY_BYTES;
        rc = file_pread(fd, buf, n, off, from, err);
        rc = rc ? rc : file_pwrite(f.fd, buf, n, off, to, err);
    }
    rc = rc ? rc : file_new_commit(&f, err);
    file_new_abort(&f);
    file_close(fd);
    free(buf);
    return rc;
}

int file_copy(const char *from, const char *to, uint64_t most, struct err *err)
{
    return copy(from, to, most, 0, err);
}

int file_copy_like(const char *from, const char *to, struct err *err)
{
    return copy(from, to, UINT64_MAX, 1, err);
}

int file_new_base(char base[NAME_MAX + 1], const char *name)
{
    size_t n = strlen(name);

    if (n <= FILE_NEW_TAIL || n > NAME_MAX || !file_new_is(name + n - FILE_NEW_TAIL, "", 0))
        return 0;
    snprintf(base, NAME_MAX + 1, "%.*s", (int)(n - FILE_NEW_TAIL), name);
    return 1;
}

void file_new_clean(const char *dir, int (*clears)(const char *base))
{
    char             base[NAME_MAX + 1];
    struct file_walk w;

    file_walk_begin(&w, dir, NULL);
    while (file_walk_next(&w))
        if (file_new_base(base, w.name) && (!clears || clears(base)))
            file_new_remove_dead(&w, 0);
    file_walk_end(&w, 0, NULL);
}
