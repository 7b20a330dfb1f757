/* drives.h: records the real drive of each device of a run, and where it is mounted. Reports add up
 * devices on one drive. A drive that is merely not mounted is not taken for a lost one. */
#pragma once

#include "run/folder/session.h"

#include <limits.h>

/* Store MAJOR:MINOR of each device's drive as the setting drive.DEVICE, and the mount point of its
 * file as mount.DEVICE. Numbers of drives and of file systems may be others after a restart of the
 * machine, but not the mount point. Devices that store nothing are skipped. */
int drives_record(struct session *s, struct err *err);

/* Whether `folder`, in which the device's file was, is in a file system with the same mount point
 * as that file: 1, 0, or -ENOENT if the run has not recorded it. was: that mount point. */
int drives_mounted(const struct session *s, size_t device, const char *folder, char was[PATH_MAX]);
