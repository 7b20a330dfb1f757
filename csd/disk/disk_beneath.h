/* disk_beneath.h: what lies beneath a block device whose bytes are those of something else: the
 * drive of a partition, the file or drive of a loop device. */
#pragma once

#include "data/base/err.h"

#include <limits.h>
#include <sys/types.h>

/* Bytes [begin, end) of a file, or of a block device. end is UINT64_MAX where nothing is known to
 * end sooner than what is beneath. */
struct disk_bytes {
    char     path[PATH_MAX]; // where the file or device is found; "": nowhere
    dev_t    dev;            // the device itself, if inode is 0; else the one that has the file
    ino_t    inode;
    uint64_t begin, end;
};

/* Writes the path in /dev of the device whose folder in /sys is `sys`. Its name there has '!' where
 * the path has '/': cciss!c0d0. */
void disk_node(char *out, size_t size, const char *sys);

/* All bytes of the block device `path`. 0, or -errno with a sentence. */
int disk_bytes_of(struct disk_bytes *out, const char *path, struct err *err);
/* Goes one step down: the same bytes as part of what is beneath. False, and nothing changes, if
 * nothing is. A loop device that this user may not open has nothing beneath. */
int disk_bytes_down(struct disk_bytes *b);

/* Refuse a block device with misuse if a loop device shows bytes that it shows, or with -EBUSY if
 * what is beneath is in use by another process: a lock on one does not keep others from them
 * through the other. */
int disk_beneath_check(const char *path, struct err *err);
