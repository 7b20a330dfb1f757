/* moved.h: a run whose folder is another one than it was.
 *
 * A copy of a run has its id, so nothing on a device tells whether it is the run's or the copy's.
 * Devices in RUN are copied with it. Those outside belong to one of the two, the run in the folder
 * that `place` in run.db names. Any other folder was copied, or moved from another file system: it
 * gets them when its user names them with --device. */
#pragma once

#include "offload/config.h"

/* What became of a run's folder since it was last written. UNKNOWN: an older version wrote it.
 * WHOLE: copied or moved with all that it has. APART: without its devices. */
enum moved { MOVED_NOT, MOVED_UNKNOWN, MOVED_WHOLE, MOVED_APART };

/* Of a run that is opened for writing. -EXDEV where it is APART, and `named` does not say that the
 * user names its devices. */
int moved_check(enum moved *out, const struct run_config *run, int named, struct err *err);

/* From now on the run is in this folder. Inside the caller's transaction, or alone. */
int moved_settle(const struct run_config *run, struct err *err);
