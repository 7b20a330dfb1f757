/* file.h: files by name, whole reads and writes on descriptors, and files and folders that appear
 * under their name only when complete.
 *
 * A name may stand for anything: a pipe that blocks who opens it, /dev/zero that never ends, a link
 * to somebody's file. So whatever is opened by name, but for the kernel's own files, is opened by
 * one of the functions below. */
#pragma once

#include "data/base/err.h"

#include <sys/stat.h>

/* A path as printf writes it ("%s/%s", dir, name), malloced; NULL and a sentence: no memory. */
char *file_path(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The path from the root, malloced; it need not exist, and no link is resolved. NULL and a
 * sentence where there is no memory or no working directory. */
char *file_absolute(const char *path, struct err *err);

/* The length of a path without the slashes at its end, with which a link would be followed. */
size_t file_trimmed(const char *path);
/* The path of `name` in the folder that `path` stands in, malloced; NULL and a sentence: no
 * memory. */
char *file_beside(const char *path, const char *name, struct err *err);

/* pread/pwrite until done; a short file is an error that says where. `path` for the sentence. */
int file_pread(int fd, void *buf, size_t n, uint64_t off, const char *path, struct err *err);
int file_pwrite(int fd, const void *buf, size_t n, uint64_t off, const char *path, struct err *err);

/* Make a regular file `bytes` long: shorter, or longer and without holes behind its first `keep`
 * bytes, which are not touched. Where there is no room a sentence says how much there is, and the
 * file is as long as it was. */
int file_set_length(int fd, const char *path, uint64_t keep, uint64_t bytes, struct err *err);

/* Open a regular file for reading; anything else is refused, and a pipe does not block. Links are
 * followed: people keep a model's files elsewhere. How much of *size is read is the caller's to
 * bound. Caller closes *fd. */
int file_open_read(const char *path, int *fd, uint64_t *size, struct err *err);

/* All of such a file, with a 0 behind it; malloced. One of more than `most` bytes is refused. */
int file_read_whole(char **out, size_t *n, const char *path, uint64_t most, struct err *err);

/* Open a file that is written where it is, for reading and writing: a regular one that has this
 * name alone, not a link to somebody's file. flags: O_CREAT (mode by umask), O_EXCL. Caller closes
 * *fd. */
int file_open_own(const char *path, int flags, int *fd, struct err *err);
/* Refuses what file_open_own would, for a file that SQLite opens; it need not be there. written:
 * else it may have other names. */
int file_check_own(const char *path, int written, struct err *err);

/* What root makes belongs to the owner of the folder that it stands in, as SQLite has it with files
 * next to a database: a run that root looks after stays its user's. fd: a new file or folder of
 * this path. Where that is not allowed it stays root's. The files here do so themselves. */
void file_give_owner(int fd, const char *path);
/* mkdir, its mode by umask: 0, or -1 and errno. */
int  file_make_folder(const char *path);

/* Open what holds a device's states: a regular file or a block device, also over links: people name
 * drives by /dev/disk/by-id. flags: as open has them. The descriptor, or -errno without a sentence,
 * -ENODEV for anything else. */
int file_open_device(const char *path, int flags);
int file_is_block(const char *path); // whether it is a block device

/* Which file or folder this name is, in a text that tells it from a copy of it: inode, and time of
 * birth where the file system knows one (else 0.0). Not the drive's number, which may be another
 * after each start of the machine. "" where there is none. A link is itself. */
enum { FILE_IDENTITY = 64 };
void file_identity(const char *path, char out[FILE_IDENTITY]);
/* Whether the name is what a text says that begins with a file_identity: more may follow. Two times
 * of birth are compared where both are known. */
int  file_is(const char *path, const char *identity);
/* Whether the name, over links, leads to the file that this descriptor has open: same drive, same
 * inode. What is written to one that has lost its name is seen by nobody else. */
int  file_names(const char *path, int fd);
/* Whether -errno says that this user may not. */
static inline int file_is_denied(int rc) { return rc == -EACCES || rc == -EPERM; }

/* The number of the drive: of a block device itself, else of what the file lies on, or where none
 * is, its folder. 0, or -errno without a sentence. */
int file_drive(const char *path, dev_t *drive);

/* A new file, or a new folder to be filled, beside `path` under an unpredictable name (mode by
 * umask), which its descriptor keeps locked; what processes that were killed left of the same path
 * is removed first: the name tells that it is ours, the lock that its maker is dead. commit: fsync,
 * rename, fsync of the folder around; abort: removes it with all that is in it. Both free. A file
 * takes the place of none or of a regular one, whose mode and owner it has (a rename would take
 * that of /dev/null or of a link, too); a folder that of none or of an empty one. What a file
 * replaces is what stood there at file_new_open: another file that came meanwhile stays, and commit
 * fails with -EEXIST. So whoever looks whether that may be replaced looks after file_new_open. */
struct file_new { int fd, folder, there; char *path, *temp; struct stat was; };
int  file_new_open(struct file_new *f, const char *path, struct err *err);
int  file_new_folder(struct file_new *f, const char *path, struct err *err);
int  file_new_commit(struct file_new *f, struct err *err);
void file_new_abort(struct file_new *f); // accepts the zero state and one that is committed
void file_new_keep(struct file_new *f);  // frees it; what was made stays under the name it has
/* Is `name` (without a folder) one of those under which file_new_open, or file_new_folder, makes
 * what becomes `base`? */
int  file_new_is(const char *name, const char *base, int folder);
/* Gives f's folder the mode and owner of the one that it is to replace, as far as that is allowed,
 * and its files those of the files of the same names there. commit does so itself. */
void file_new_like_folder(const struct file_new *f);
/* A folder in which one process works, which nobody else may look into and is never committed. */
int  file_new_scratch(struct file_new *f, const char *path, struct err *err);

/* Whether this errno of renameat2 says that the file system does not know its flags. */
static inline int file_lacks_flags(int e) { return e == EINVAL || e == ENOSYS; }
/* rename, but of something in the place of nothing alone. */
int file_rename_new(const char *from, const char *to, struct err *err);

/* A new file of these bytes: file_new_open, one write, commit. */
int file_write_whole(const char *path, const void *bytes, size_t n, struct err *err);

/* A copy under a name that is new, or a regular file's; `from` may have `most` bytes. */
int file_copy(const char *from, const char *to, uint64_t most, struct err *err);

/* Removes what killed processes left of `path`, files or folders, as file_new_open and
 * file_new_folder do. */
void file_new_clear_left(const char *path, int folder);

/* Removes the files that killed processes left in `dir` under such names, whatever they were to
 * become. */
void file_new_clean(const char *dir);

/* Removes a file, or a folder with all that is in it, as far as it can; links are removed, not
 * followed, and what is mounted in it is left alone. For what only this program can have filled. */
void file_remove_tree(const char *path);

/* What is mounted at or below this path, a file too: the first such path, malloced; NULL: nothing.
 */
char *file_mounted(const char *path);

/* A lock on an open file, shared or not, until it is closed: 0, or -EBUSY where another process
 * keeps it for two seconds (one that was killed holds what it had open until the kernel has ended
 * its requests), -ENOLCK where the file system has no locks, or another -errno; no sentence. */
int file_lock(int fd, int shared);
/* The sentence to what file_lock returned, and that again. busy: what another process does there,
 * behind "PATH is in use by another process". */
int file_lock_fail(int rc, const char *path, const char *busy, struct err *err);

/* Whether what is made in this folder lies in RAM: on a tmpfs, a devtmpfs or a ramfs. */
int file_in_ram(const char *dir);

/* fsync of a directory; and of the one that `path` stands in. */
int file_sync_dir(const char *dir, struct err *err);
int file_sync_parent(const char *path, struct err *err);
