/* snapshot.h: copies the committed states of a run to files of a snapshot, and puts them back. What
 * else a snapshot has, and how it is found, is in run/snapshots/snapshots.h.
 *
 * A snapshot's devices have the run's layout: the same slots at the same offsets. Their files have
 * the superblock, the committed slots and the committed residuals; all the rest of them is a hole.
 * In mode mem, the snapshot has the newest image and RUN/frozen. */
#pragma once

#include "offload/devices/devices.h"
#include "offload/devices/image.h"
#include "offload/devices/journal.h"
#include "offload/upkeep/beside.h"

struct snapshot_take {
    const struct run_config *run; // no step is half done, and nobody writes to its states meanwhile
                                  // (beside a training: to those that are held)
    const struct run_config *to;  // the snapshot: the same run with another dir, owner and devices.
                                  // Its device_paths are new files, or NULL: they are in to->dir
    struct runlog           *log;   // whose journal names the states: the run's run.db, or a copy
    const struct watch      *watch; // progress in bytes, or NULL
    struct beside           *beside; // the pace next to a training, or NULL
    /* Called for each file that is about to be made in to->dir, by its name there. */
    int  (*made)(void *ctx, const char *name, struct err *err);
    void *ctx;
    const char *earlier; // a snapshot of the same run, whose file of frozen blocks becomes this
                         // one's, too (a hard link), if it can; NULL: none
    // results
    uint64_t bytes, shared; // of states; and how many of them are not copied: they share their
                            // blocks with the run's, or are an earlier snapshot's file
    int      linked;        // that file is the earlier one's, and was compared
};

/* The bytes of states that a snapshot has. */
int snapshot_bytes(const struct run_config *run, uint64_t *bytes, struct err *err);

/* Make the files of the states in to->dir, and flush them. to->log is not used. -EBUSY: a step of
 * the run is half done. The caller removes the files after a failure. */
int snapshot_take(struct snapshot_take *t, struct err *err);

/* The states of a snapshot on their way back to the run that it was taken of. The run may have been
 * resharded since: its devices may be others, and of another number. */
struct snapshot_put {
    const struct run_config *from; // the snapshot
    const struct run_config *to;   // the run, whose devices are written over
    const struct watch      *watch; // progress, or NULL
    uint64_t bytes;                // result: states written
    // private: the run's devices, or its image, which are locked until snapshot_put_end
    struct devices     dev;
    struct journal     made;
    struct image_state image;
    uint32_t          *sums;
    int                fd;
};

/* Write the snapshot's states to the run's devices, and flush them. Each is compared with its
 * checksum as it is read. In mode mem, the image is written that the run's journal does not name.
 * After this, or after a failure in it, the states on the run's devices are not those that its
 * journal names. */
int  snapshot_put(struct snapshot_put *p, struct err *err);
/* Inside the caller's transaction: write the rows of these states to the journal, and the position
 * of the snapshot: its next step, and its number of updates. */
int  snapshot_put_record(struct snapshot_put *p, struct err *err);
/* Also after a failure; accepts a struct whose private members are zero. */
void snapshot_put_end(struct snapshot_put *p);
