/* moved.h: a run whose folder is another one than it was.
 *
 * A copy of a run has its id, so nothing on a device tells whether it is the run's or the copy's.
 * Devices in RUN are copied with it. Those outside belong to one of the two: the run in the folder
 * that `place` in run.db names, by inode, time of birth and path. A copy has another inode; the
 * path of a snapshot is on another file system. In the run's own folder each device's path must
 * lead to the same file as before, which `device.N` names; in a copy none may, since that file is
 * the original's. Whoever is not certainly the run gets such devices when the user names them with
 * --device: then their superblocks get a word of its own (`owner`), so that the other run does not
 * take them back, or remove them. */
#pragma once

#include "offload/layout/config.h"

/* What became of a run's folder since it was last written. UNKNOWN: an older version wrote it.
 * RENAMED: it has another path. WHOLE: copied or moved with all that it has. APART: its devices lie
 * elsewhere, and may be another run's. */
enum moved { MOVED_NOT, MOVED_UNKNOWN, MOVED_RENAMED, MOVED_WHOLE, MOVED_APART };

/* What the folder dir, a path without links, is to the one that a value of `place` names:
 * MOVED_NOT, MOVED_RENAMED, or, another one or a snapshot of it, MOVED_WHOLE. */
enum moved moved_folder(const char *dir, const char *place);

/* Of a run that is opened for writing. -EXDEV where it is APART, and `named` does not say that the
 * user names its devices. */
int moved_check(enum moved *out, const struct run_config *run, int named, struct err *err);

/* Whether a path from the root was in the folder that `place` in run.db names. */
int moved_was_in(struct runlog *log, const char *path);

/* Which files its devices are. Inside the caller's transaction, or alone. */
int moved_note(const struct run_config *run, struct err *err);

/* Its devices were opened, and are its own: from now on the run is in this folder. Inside the
 * caller's transaction, or alone. */
int moved_settle(enum moved was, const struct run_config *run, struct err *err);

/* Write `place` for the folder dir, a path without links. */
int moved_store(struct runlog *log, const char *dir, struct err *err);
