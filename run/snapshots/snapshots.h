/* snapshots.h: the snapshots of a run, as --snapshot-every takes them: what they are, and how they
 * are found and read. snapshot_make.h takes one, snapshot_removal.h removes old ones.
 *
 * A snapshot is a copy of the run at a commit, in the form of a run's folder, so everything that
 * reads a run reads it. It lies in DIR/NAME-ID/step-00000400: DIR is a --snapshot-dir, or
 * RUN/snapshots; NAME is the beginning of RUN's name, at most 64 bytes; only ID, the run's id,
 * decides whose it is; 400 steps are done. Of several ranks, each has a snapshot of its own
 * portion: step-00000400, step-00000400.rank1, ...; NAME, ID and RUN are rank 0's (RUN its own,
 * where rank 0's folder is on another host). snapshot_make.h says what is in it. Its run.db has
 * these settings in addition to the run's:
 *
 *     snapshot        the number of steps that are done. A run with this setting is a snapshot,
 *                     and is only read
 *     snapshot.n      which of the run's snapshots it is, from 1. The order of clocks or steps
 *                     would not do: clocks are set, and a run goes back
 *     snapshot.of     the folder RUN: its file_identity, a space, its path
 *     snapshot.taken  the time (UTC)
 *     snapshot.files  its files except run.db: bytes, a space, the name; one per line. "": none
 *     snapshot.times  when each was last written, in nanoseconds since 1970, in the same form.
 *                     Older snapshots have no times, and their files are known by size
 *
 * With --snapshot-on devices, portions.h says which settings it has in addition.
 *
 * and other values of these: place, option.device, option.devices, option.fpga, option.csd,
 * layout, owner, owner.next, reshard.remove, device.N, best.folder. What some of them were is in
 * settings that begin with "was.", such as was.option.device. */
#pragma once

#include "offload/upkeep/beside.h"
#include "run/folder/session.h"

/* The settings whose values stay under SNAPSHOT_WAS and their name; NULL ends the list. */
#define SNAPSHOT_WAS "was."
extern const char *const snapshot_changes[];

enum { SNAPSHOT_STEP = 128 };

struct snapshot {
    char     path[SESSION_PATH];
    uint64_t step;      // steps that are done
    uint64_t n;         // a later one has a larger number
    int      whole;     // all files are there with their sizes, or may be where this user may not
                        // look. snapshot_verify reads them
    int      files;     // those in its folder are
    int      denied;    // who looked at its contents may not read them
    int      tried;     // who goes back has read it, and mended it if that was possible
    size_t   parity;    // drives of its devices that may be lost; 0: it lies in its folder alone
    size_t   lost;      // devices whose files are not there, or cut: of these, lost_first is one
    size_t   lost_first;
    int      ours;      // certainly this run's, which may remove it. Otherwise it may be that of
                        // a run of which this one is a copy
    uint64_t bytes;     // that its files take on the drive
    double   loss;      // of the last step; NaN: there was none
    char     last[SNAPSHOT_STEP]; // what its run.db says of that step, which tells branches apart
    char     taken[32]; // the time (UTC)
};

struct snapshots {
    struct snapshot *at; // (n) by rising snapshot.n
    size_t           n;
    int              unread;     // a folder that may hold others, or be one, cannot be read:
                                 // the -errno of the first; 0: none
    uint64_t         unread_step; // whose folder that is; UINT64_MAX: of several
    struct err       unread_why;
};

/* Look at the folder `path`, which has a snapshot's name. 1: it is a snapshot of the run. 0: it is
 * not. -errno: its run.db cannot be read. */
int  snapshots_look(struct snapshot *out, const struct session *s, const char *path,
                    struct err *err);

/* Find all snapshots of the run. A folder of that name that cannot be read as a snapshot is not
 * one. The caller frees the list, also after a failure. */
int  snapshots_list(struct snapshots *out, const struct session *s, struct err *err);
void snapshots_free(struct snapshots *list);
/* Whether the folder at `path` is this run's, also if the snapshot was not completed, or is half
 * removed. log: its run.db; NULL, if there is none that can be read: then its path decides. */
int  snapshots_is_ours(const struct session *s, const char *path, struct runlog *log);

/* Find the snapshots in the run's present directories alone. It does not read s->log, so another
 * thread than that of s may call it. */
int  snapshots_find(struct snapshots *out, const struct session *s, struct err *err);

/* True if the folder at `path`, which has a snapshot's name, lies in RUN/snapshots, and its run.db
 * is damaged. */
int  snapshots_is_damaged(const struct session *s, const char *path);

/* The newest whole one. NULL: there is none. */
const struct snapshot *snapshots_newest(const struct snapshots *list);

/* Whether it is not whole, and would be by its parity (made_whole.h), if what is there of it is as
 * it was written. */
int snapshot_by_parity(const struct snapshot *at);
/* Whether any is. */
int snapshots_any_by_parity(const struct snapshots *list);

/* The whole one of what the run is now, of which `step` steps are done. NULL: there is none. */
const struct snapshot *snapshots_present(const struct snapshots *list, const struct session *s,
                                         uint64_t step);

/* Find the run's newest whole snapshot with so many steps done. Without one, misuse, and the
 * sentence names the steps that there are. */
int snapshots_step(struct snapshot *out, const struct session *s, uint64_t step, struct err *err);

/* True if the snapshot is of the branch that the run is in: its last step is the run's. */
int snapshot_is_now(const struct snapshot *at, const struct session *s);

/* A snapshot is opened as a run, by session_open with SESSION_READ; until session_close nobody
 * removes it. This reads all states of an open snapshot, its run.db and its best model, and
 * compares them with their checksums. -EBADMSG: damaged. */
int snapshot_verify(struct session *snapshot, struct err *err);
/* snapshot_verify for a new snapshot. frozen_known: its file of frozen blocks was just compared.
 * beside: the pace next to a training, or NULL. */
int snapshot_prove(struct session *snapshot, int frozen_known, struct beside *beside,
                   struct err *err);
/* The rest of snapshot_verify if states and parity were read in another way: compares run.db and
 * the best model. */
int snapshot_prove_rest(struct session *snapshot, struct err *err);
/* snapshot_verify, and compares the tokenizer and the best model with those that its run.db names.
 * A run goes back without them. */
int snapshot_check(struct session *snapshot, struct err *err);

/* Open the snapshot at this path, and read it by snapshot_verify, snapshot_prove_rest or
 * snapshot_check. 0, or -errno with a sentence. */
typedef int snapshot_reader(struct session *snapshot, struct err *err);
int snapshot_read(const char *path, snapshot_reader *read, const struct events *events,
                  struct err *err);
/* snapshot_read as an answer: 1: the snapshot is whole; 0: it is not, or cannot be read, and a
 * sentence says why; -errno: the reading was stopped, or memory is short. */
int snapshot_is_whole(const char *path, snapshot_reader *read, const struct events *events,
                      struct err *err);

/* The newest complete one that is certainly the run's, in the same folder as `path`; NULL: none. */
const struct snapshot *snapshots_newest_next_to(const struct snapshots *list, const char *path);
