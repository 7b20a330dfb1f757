/* file.h: whole reads and writes on descriptors, and files that appear under their
 * name only when complete. */
#ifndef DATA_FILE_H
#define DATA_FILE_H

#include "data/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* pread/pwrite until done; a short file is an error that says where. `path` for the sentence. */
int file_pread(int fd, void *buf, size_t n, uint64_t off, const char *path, struct err *err);
int file_pwrite(int fd, const void *buf, size_t n, uint64_t off, const char *path, struct err *err);

/* Open a regular file for reading (anything else is refused, and a FIFO does not
 * block); caller closes *fd. */
int file_open_read(const char *path, int *fd, uint64_t *size, struct err *err);

/* Whether a new file may take this name: none has it, or a regular one that none of the `inputs` is
 * (NULLs among them are passed over). A rename would take the place of /dev/null or of a link, too,
 * and of the text that was read. 0 or misuse. */
int file_may_replace(const char *path, const char *const *inputs, size_t n, struct err *err);

/* A new file beside `path` under an unpredictable name (mkstemp, mode by umask); commit: fsync,
 * rename, fsync of the folder; abort: unlink. Both free. */
struct file_new { int fd; char *path, *temp; };
int  file_new_open(struct file_new *f, const char *path, struct err *err);
int  file_new_commit(struct file_new *f, struct err *err);
void file_new_abort(struct file_new *f); // accepts the zero state and one that is committed

/* Removes what killed processes left in `dir` under such names; the caller knows that nobody
 * else is making files there. */
void file_new_clean(const char *dir);

/* Removes a file, or a folder with all that is in it, as far as it can; links are removed, not followed. */
void file_remove_tree(const char *path);

/* A lock on an open file, shared or not, until it is closed: 0, or -EBUSY where another process
 * keeps it for two seconds (one that was killed holds what it had open until the kernel has ended
 * its requests). 0 also where the file system has no locks. */
int file_lock(int fd, int shared);

/* fsync of a directory; and of the one that `path` stands in. */
int file_sync_dir(const char *dir, struct err *err);
int file_sync_parent(const char *path, struct err *err);

#endif
