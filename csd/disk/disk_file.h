/* disk_file.h: the file or block device under a disk: opened, created, measured, probed. */
#pragma once

#include "csd/disk/disk.h"

/* Open (or create) cfg->path with `flags` (O_DIRECT or 0) added; the descriptor or -errno. What was
 * created is removed again if this fails. -EOPNOTSUPP: this file takes no O_DIRECT, another backend
 * may take it. */
int disk_file_open(const struct disk_config *cfg, int flags, struct err *err);

/* Remove what disk_file_open created, where a later step failed; never a device node. */
void disk_file_undo(const struct disk_config *cfg);

/* Of a block device: refuse one that is mounted or in use (-EBUSY); one that carries a signature
 * known to libblkid, which is named. */
int disk_check_idle(const char *path, struct err *err);
int disk_check_signature(const char *path, struct err *err);
