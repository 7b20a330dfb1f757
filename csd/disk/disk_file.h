/* disk_file.h: the file or block device beneath a disk: opened, made, sized, and refused if it is
 * somebody else's. */
#pragma once

#include "csd/disk/disk.h"

/* Open (or make) cfg->path with additional `flags` (O_DIRECT or 0). The descriptor, or -errno; a
 * file that was made is then removed. -EOPNOTSUPP: the file takes no O_DIRECT, and another backend
 * may. */
int disk_file_open(const struct disk_config *cfg, int flags, struct err *err);

/* If a later step fails: remove the file that disk_file_open made; never a device node. */
void disk_file_undo(const struct disk_config *cfg);

/* Refuse a block device that is mounted or in use (-EBUSY), or that disk_beneath_check refuses;
 * refuse one with a signature that libblkid knows, which the sentence names. */
int disk_check_idle(const char *path, struct err *err);
int disk_check_signature(const char *path, struct err *err);
