/* snapshot_log.h: run.db of a snapshot. It is a copy of the run's, with some settings changed. The
 * calls but the last are inside the caller's transaction in to->log. */
#pragma once

#include "run/folder/session.h"

struct snapshot_log {
    const struct session    *s;     // the run; its log is read
    const struct run_config *to;    // the snapshot, with its log open
    const char              *name;  // DIR/NAME-ID/step-00000400, which it gets
    const char              *owner; // the word of its devices
    uint64_t                 step, n;
    int                      portions; // its states lie on the devices' drives
};

/* What differs whatever the states are: whoever opens it takes it for nothing but a snapshot. */
int snapshot_log_settle(const struct snapshot_log *l, struct err *err);
/* The rows of the states: where its devices are, and in mode mem only the image that it has. */
int snapshot_log_states(const struct snapshot_log *l, struct err *err);
/* Of a snapshot that comes from elsewhere: where it lies, and whose it is. */
int snapshot_log_place(const struct snapshot_log *l, struct err *err);
/* Close the database of the snapshot in the folder `dir`, and remove run.lock, which a snapshot
 * does not have. If rc is 0, the database becomes one file without a log, is flushed, and leaves
 * the page cache. Returns rc if it is not 0; otherwise 0 or -errno. *log, which may be NULL if rc
 * is not 0, is NULL afterwards. */
int snapshot_log_close(struct runlog **log, const char *dir, int rc, struct err *err);
