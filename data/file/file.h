/* file.h: opens files by name, reads and writes whole ranges, and creates files and folders that
 * appear under their name only when complete.
 *
 * A name may lead to anything: a pipe that blocks the opener, /dev/zero that never ends, a link
 * to somebody's file. So every file opened by name is opened by a function of this header. Only
 * the kernel's own files are exempt.
 *
 * Unless a comment says otherwise, an int result is 0, or -errno with a sentence in `err`. */
#pragma once

#include "data/base/err.h"

#include <dirent.h>
#include <sys/stat.h>

/* Close what may not be open: a descriptor below 0, a folder that is NULL. */
void file_close(int fd);
void file_close_dir(DIR *d);

/* Returns a path formatted as by printf ("%s/%s", dir, name), malloced. Returns NULL with a
 * sentence if there is no memory. */
char *file_path(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Returns the absolute path, malloced. It need not exist, and no link is resolved. Returns NULL
 * with a sentence if there is no memory or no working directory. */
char *file_absolute(const char *path, struct err *err);

/* Returns a time of a file in nanoseconds since 1970. */
static inline uint64_t file_ns(const struct timespec *t)
{
    return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

/* True if a file still has the size and the time of last writing that it had. */
static inline int file_unwritten(const struct stat *now, const struct stat *was)
{
    return now->st_size == was->st_size && file_ns(&now->st_mtim) == file_ns(&was->st_mtim);
}

/* Returns the length of a path without the slashes at its end. With those slashes, a link would
 * be followed. */
size_t file_trimmed(const char *path);
/* Returns the folder that contains `path`, malloced, or NULL if there is no memory. */
char *file_folder(const char *path);
/* Returns the path of `name` in the folder that contains `path`, malloced. Returns NULL with a
 * sentence if there is no memory. */
char *file_beside(const char *path, const char *name, struct err *err);

/* Read or write all n bytes at offset `off`. A file that ends early is an error that says where.
 * `path` is for the sentence only. */
int file_pread(int fd, void *buf, size_t n, uint64_t off, const char *path, struct err *err);

/* file_pread of a file that somebody else may write over meanwhile: an error if it has been written
 * to since fstat gave `was`. */
int file_pread_same(int fd, void *buf, size_t n, uint64_t off, const struct stat *was,
                    const char *path, struct err *err);
int file_pwrite(int fd, const void *buf, size_t n, uint64_t off, const char *path, struct err *err);

/* Makes a regular file `bytes` long. It may shrink or grow. The part behind the first `keep`
 * bytes has no holes afterwards; the first `keep` bytes are not touched. If the drive has too
 * little room, the sentence says how much there is, and the length stays. */
int file_set_length(int fd, const char *path, uint64_t keep, uint64_t bytes, struct err *err);

/* Looks at a path by statx, once more if the first look failed: a failed look makes no other file,
 * and no mount. more: what is asked besides STATX_BASIC_STATS. 0, or -1 with errno. */
int file_statx(struct statx *x, const char *path, int flags, unsigned more);

/* Opens a regular file for reading and refuses any other kind. A pipe does not block. Links are
 * followed, because people keep a model's files elsewhere. *size is the file's length; the
 * caller limits how much of it is read. The caller closes *fd. */
int file_open_read(const char *path, int *fd, uint64_t *size, struct err *err);
/* The same; *was is what the file was as it was opened (file_pread_same). */
int file_open_was(const char *path, int *fd, struct stat *was, struct err *err);

/* Drops the pages of a file that was flushed: whoever reads it then reads it from the drive. */
void file_forget(const char *path);

/* Reads a whole regular file into *out, malloced, with a 0 behind its *n bytes. A file of more
 * than `most` bytes is refused. */
int file_read_whole(char **out, size_t *n, const char *path, uint64_t most, struct err *err);

/* Refuses a regular file that has other names, because writing would change it under these, too. */
int file_refuse_links(const char *path, const struct stat *st, struct err *err);
/* Opens a file for reading and writing in place. It must be a regular file with no other name,
 * and not a link to somebody's file. flags: O_CREAT (mode by umask), O_EXCL. The caller closes
 * *fd. */
int file_open_own(const char *path, int flags, int *fd, struct err *err);
/* Refuses a file that file_open_own would refuse. It is for files that SQLite opens. The file
 * need not exist. If `written` is 0, the file may have other names. */
int file_check_own(const char *path, int written, struct err *err);

/* Gives a new file or folder, open as `fd` under `path`, to the owner of the folder around it.
 * It acts only if root runs the process. SQLite does this with files next to a database, too. So
 * a run that root looked after stays its user's. If the change is not allowed, root stays the
 * owner. The functions of this header that create files call it themselves. */
void file_give_owner(int fd, const char *path);
/* Gives a new file or folder to the owner of the file or folder `of`. It, too, acts only if root
 * runs the process. It is for a run's files in other folders: they belong to the run's user. */
void file_give_owner_of(int fd, const char *of);
/* Makes a folder, its mode by umask. Returns 0, or -1 with errno set. */
int  file_make_folder(const char *path);
/* Makes a folder, for good (the one around it is flushed), unless it is there. Root gives it to the
 * owner of `of`. */
int  file_have_folder(const char *path, const char *of, struct err *err);

/* Opens the regular file or block device that holds a device's states. Links are followed,
 * because people name drives by /dev/disk/by-id. `flags` are those of open. Returns the
 * descriptor, or -errno without a sentence. Any other kind of file is -ENODEV. */
int file_open_device(const char *path, int flags);
/* file_open_device past the cache (O_DIRECT), if the file system can. */
int file_open_uncached(const char *path, int flags);
/* Opens an empty file of siTrain's own, which `own` has open, to write a device's states or parity
 * to it: past the cache if `uncached`. Meanwhile it has bytes, by which it is seen whether O_DIRECT
 * works. Returns the descriptor, or -errno. */
int file_open_empty(int own, const char *path, int uncached, struct err *err);
int file_is_block(const char *path); // returns whether the path is a block device
/* The size of a block device: 0 for one that has no medium. */
int file_block_bytes(const char *path, uint64_t *bytes, struct err *err);

/* Writes a text that identifies the file or folder `path` and tells it from a copy. The text has
 * the inode, and the time of birth (0.0 if the file system does not record it). It does not have
 * the drive's number, which may change when the machine restarts. It is "" if the path does not
 * exist. A link is identified itself, not its target. */
enum { FILE_IDENTITY = 64 };
void file_identity(const char *path, char out[FILE_IDENTITY]);
/* file_identity of a folder. A link is followed, because a run's folder may be moved during
 * training and a link left in its place. */
void file_folder_identity(const char *dir, char out[FILE_IDENTITY]);
/* Returns whether `path` is the file that `identity` describes. `identity` begins with a text of
 * file_identity; more may follow. Times of birth are compared only if both are known. */
int  file_is(const char *path, const char *identity);
/* Returns whether the times of birth of both are known. Otherwise inodes alone are compared, which
 * mean little: FUSE file systems number their files anew, by each path and after each mount. vfat
 * and exFAT do so at any time: there no inode is compared, and in exFAT no folder is known. */
int  file_has_births(const char *path, const char *identity);
/* Returns 1 if `path`, with links followed, leads to the file that `fd` has open: same drive, same
 * inode. 0: it does not, so nobody else sees later writes to that file. -errno, without a sentence:
 * it cannot be found out (an error of the drive, a stale handle, no memory). */
int  file_names(const char *path, int fd);
/* Writes the sentence of such an error for a file of a run that this process has open. Returns
 * rc. */
int  file_unseen(const char *path, int rc, struct err *err);
/* Returns whether both are the status of one file. */
static inline int file_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}
/* Returns whether `rc` (-errno) means that this user lacks permission. */
static inline int file_is_denied(int rc) { return rc == -EACCES || rc == -EPERM; }
/* Returns whether `rc` (-errno) is a lack of this process (permission, descriptors, memory, and
 * threads: the ring's are ECANCELED), which says nothing of the file: neither that it is damaged
 * nor that it is lost. */
static inline int file_is_unknown(int rc)
{
    return rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM || rc == -EAGAIN || rc == -ECANCELED ||
           file_is_denied(rc);
}
/* Returns whether `rc` (-errno) means that a file could not be read, so nothing is known of its
 * contents. ENOTCONN: the process of a FUSE file system has ended. */
static inline int file_is_unread(int rc)
{
    return rc == -EIO || rc == -ESTALE || rc == -EINTR || rc == -ETIMEDOUT || rc == -ENOTCONN ||
           file_is_unknown(rc);
}
/* Returns whether this errno of a look at a path means that nothing is there. Any other (EIO,
 * ESTALE, EACCES) says only that nobody could look. */
static inline int file_is_absent(int e)
{
    return e == ENOENT || e == ENOTDIR || e == ENAMETOOLONG;
}
/* Returns whether something is at the path; 0 with errno: nothing is (file_is_absent), or nobody
 * could look. Such a look is tried once more. Links are followed. */
int  file_is_there(const char *path);
/* Returns whether something is at the path, or may be: where nobody could look, it counts as there,
 * so that opening it says why. Otherwise an unreadable part of a folder would pass for a missing
 * one. Links are followed. */
int  file_may_be(const char *path);
/* Returns 1 if something is at the path, links followed; 0 if nothing is; or -errno with a
 * sentence: nobody could look. */
int  file_exists(const char *path, struct err *err);
/* Returns 1 if something is at the path, and *st describes it (links are not followed); 0 if
 * nothing is; or -errno with a sentence. */
int  file_stat(const char *path, struct stat *st, struct err *err);

/* Sets *drive to the number of a drive. For a block device, it is the device's own number.
 * Otherwise it is the drive on which the file lies, or its folder if there is no file. Returns
 * 0, or -errno without a sentence. */
int file_drive(const char *path, dev_t *drive);

/* A new file or folder that takes the name `path` only when it is complete. Until then it lies
 * next to `path` under an unpredictable name (mode by umask). Its descriptor `fd` holds a lock
 * on it. Opening first removes what killed processes left for the same path: the name shows that
 * the file is ours, the lock that its maker is dead.
 *
 * commit flushes it with fsync, renames it, and flushes the folder around it. abort removes it
 * with all its contents. Both free f's memory.
 *
 * A file may replace a regular file, whose mode and owner it takes. A rename would replace
 * /dev/null or a link, too, so those are refused. A folder may replace an empty folder. Only the
 * file that existed at file_new_open is replaced. If another file has come since, it stays, and
 * commit fails with -EEXIST. So a caller that decides whether the old file may be replaced
 * decides after file_new_open. */
struct file_new { int fd, folder, there; char *path, *temp; struct stat was; };
enum { FILE_NEW_TAIL = 21 }; // by so many bytes the other name is longer
int  file_new_open(struct file_new *f, const char *path, struct err *err);
int  file_new_folder(struct file_new *f, const char *path, struct err *err);
/* Takes a file that a dead process of this user left unfinished for `path`, instead of removing
 * it: the first one that `fits` wants (1; 0: it does not; or -errno). It is then as after
 * file_new_open. Returns 1; 0 if there is none; or -errno. One that cannot be read is an error: the
 * caller would begin anew, and so remove it. */
int  file_new_find(struct file_new *f, const char *path, int (*fits)(void *ctx, int fd), void *ctx,
                   struct err *err);
/* Takes a new folder for `path` that a dead process of this user left at `temp`. `fd` is the open
 * folder; the caller has locked it. Returns 1, and fd belongs to f; 0 if the folder is another
 * user's; or -errno. */
int  file_new_take(struct file_new *f, const char *path, const char *temp, int fd,
                   struct err *err);
/* finish: commit, but if it cannot give the name, f is as it was, and the new file stays. A folder
 * loses the name again if it cannot be made durable. */
int  file_new_finish(struct file_new *f, struct err *err);
void file_new_abort(struct file_new *f); // accepts the zero state and a committed one
static inline int file_new_commit(struct file_new *f, struct err *err)
{
    int rc = file_new_finish(f, err);

    if (rc)
        file_new_abort(f);
    return rc;
}
void file_new_keep(struct file_new *f);  // frees f; the new file stays under its temporary name
/* Returns whether file_new_open, or with `folder` file_new_folder, could have made `name` for
 * the later name `base`. Neither contains a folder. */
int  file_new_is(const char *name, const char *base, int folder);
/* Returns whether this is the name of an unfinished file; base: of which one. */
int  file_new_base(char base[NAME_MAX + 1], const char *name);
/* file_like for f's new folder and the folder that it will replace, and for its files and the
 * files with the same names there. commit does this itself. */
void file_new_like_folder(const struct file_new *f);
/* Makes a folder for the work of one process. Nobody else may look into it, and it is never
 * committed. */
int  file_new_scratch(struct file_new *f, const char *path, struct err *err);

/* Gives the folder at `path` the temporary name base.new-HEX, f->temp, under which nobody looks for
 * it. Removes nothing that killed processes left for `base`. The caller gives it its name back, or
 * removes it (abort), or leaves it (keep). After a failure the folder has its name. */
int  file_new_aside(struct file_new *f, const char *path, const char *base, struct err *err);

/* Gives a new file or folder another temporary name. After a failure it has its name. */
int  file_new_rename(struct file_new *f, const char *to, struct err *err);

/* Gives the open file or folder the mode, the owner and the access control lists of the one at
 * the path `old`, as far as that is allowed, and never more than that. */
void file_like(int fd, const char *old);
/* file_like for the folder at `path`. */
void file_like_at(const char *path, const char *old);
/* file_like, but the owner may write the new file, or fill the new folder and clear it later. */
void file_like_writable(int fd, const char *old);

/* Returns whether this errno of renameat2 means that the file system does not support its flags. */
static inline int file_lacks_flags(int e) { return e == EINVAL || e == ENOSYS; }
/* Renames `from` to `to`; a `to` that already exists is an error. */
int file_rename_new(const char *from, const char *to, struct err *err);
/* Renames the file or folder `path` to PATH.WORD-HEX, and flushes the folder around it. *to gets
 * the new name, which the caller frees, also after a failure. Returns 0 or -errno. */
int file_put_aside(char **to, const char *path, const char *word, struct err *err);

/* Creates a file of these n bytes: file_new_open, one write, commit. */
int file_write_whole(const char *path, const void *bytes, size_t n, struct err *err);

/* Copies `from` to `to`, which is a new name or a regular file. `from` may have at most `most`
 * bytes. */
int file_copy(const char *from, const char *to, uint64_t most, struct err *err);
/* file_copy of a file of any size. The copy has the owner, access lists and mode of `from`, but its
 * owner may write it. */
int file_copy_like(const char *from, const char *to, struct err *err);

/* Removes the files, or folders, that killed processes left for `path`, as file_new_open and
 * file_new_folder do. */
void file_new_clear_left(const char *path, int folder);
/* The same of the one at which the walk is. */
struct file_walk;
void file_new_remove_dead(const struct file_walk *w, int folder);

/* Removes the files in `dir` that killed processes left under temporary names, for each later name
 * that `clears` wants; NULL: for any. */
void file_new_clean(const char *dir, int (*clears)(const char *base));

/* Removes a file, or a folder with all its contents, as far as possible. Links are removed, not
 * followed. Mounted file systems are left alone. Use it only for paths that only this program
 * can have filled. */
void file_remove_tree(const char *path);

/* Returns the path without links, malloced. NULL, with errno: nothing is there, or a second look
 * failed, too. */
char *file_real(const char *path);

/* Returns whether both paths exist and are in the same mounted file system; -errno if nobody could
 * look. Where the kernel does
 * not number its mounts, the drives are compared; an overlay may have several. */
int file_same_mount(const char *a, const char *b);

/* Returns the mount point of the file system that `path` is in, malloced. NULL if nothing is at the
 * path, or if there is no memory. */
char *file_mount_point(const char *path);

/* Finds the first mount point at or below this path, malloced, or NULL if there is none. A mounted
 * file counts, too. A folder that this user may not read is not looked into. Returns 0, or -errno
 * with a sentence: nobody could look. */
int file_mounted(char **found, const char *path, struct err *err);

/* Returns NULL if this process may rename or remove what is at this path, in a folder that it may
 * write to. Otherwise it returns why not, as in "PATH WHY". */
const char *file_fixed(const char *path);
/* Reports that a file could not be opened for writing, or by file_open_device: of an attribute that
 * forbids it, and of another kind of file, it says which. */
int file_open_fail(const char *path, int rc, struct err *err);

/* Refuses a folder in which no name can be moved or removed, because of its attributes (chattr +i,
 * +a). */
int file_check_folder(const char *dir, struct err *err);

/* Locks an open file, shared or exclusive, until it is closed. If another process holds the
 * lock, it waits for two seconds: a killed process keeps its files until the kernel has ended
 * its requests. Returns 0, -EBUSY if the lock was not freed, -ENOLCK if the file system has no
 * locks, or another -errno. It writes no sentence. */
int file_lock(int fd, int shared);
/* Writes the sentence for the result `rc` of file_lock and returns `rc`. `busy` says what the
 * other process does; it follows "PATH is in use by another process". */
int file_lock_fail(int rc, const char *path, const char *busy, struct err *err);

/* Returns whether files in this folder lie in RAM: on a tmpfs, a devtmpfs or a ramfs. */
int file_in_ram(const char *dir);
/* Returns whether the path leads through /proc, as /dev/fd/3 and /dev/stdin do. A link to such a
 * link is not seen if the last one leads out of /proc. */
int file_is_in_proc(const char *path);

/* Flush a directory with fsync: `dir` itself, or the directory that contains `path`. */
int file_sync_dir(const char *dir, struct err *err);
int file_sync_parent(const char *path, struct err *err);
