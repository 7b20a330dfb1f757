/* moved.h: detects that a run's folder was copied, moved or restored from a snapshot.
 *
 * A copy of a run has the run's id, so a device's content does not tell whose it is. Devices in RUN
 * are copied with it. Devices outside belong to the run in the folder that `place` in run.db names,
 * by inode, time of birth and path. A copy has another inode. In a snapshot, the old path leads to
 * another file system.
 *
 * In the run's own folder, each device's path must lead to the file that `device.N` names. In a
 * copy, no path may lead to that file, because it is the original's.
 *
 * A run that fails these checks gets its devices when the user names them with --device. Their
 * superblocks then get a random word, `owner`. It stops the other run from using or removing
 * them. */
#pragma once

#include "data/file/file.h"
#include "offload/layout/config.h"
#include "offload/layout/superblock.h"

#include <limits.h>

/* What happened to a run's folder since it was last written. UNKNOWN: an older version wrote it.
 * RENAMED: it has another path. WHOLE: copied or moved together with its devices. APART: its
 * devices are elsewhere, and may be another run's. */
enum moved { MOVED_NOT, MOVED_UNKNOWN, MOVED_RENAMED, MOVED_WHOLE, MOVED_APART };

/* The path in a value of `place`, or of snapshot.of, which has its form; NULL: there is none. */
const char *moved_path(const char *place);

/* Compare the folder dir, a path without links, with a value of `place`. MOVED_NOT, MOVED_RENAMED,
 * or MOVED_WHOLE if it is another folder or a snapshot. */
enum moved moved_folder(const char *dir, const char *place);

/* Check a run that is opened for writing. -EXDEV if it is APART, unless `named` says that the user
 * names its devices. */
int moved_check(enum moved *out, const struct run_config *run, int named, struct err *err);

/* Whether run.db names the file that is in the place of device i. LIKELY: restore was making it, an
 * older version recorded no file, or it lies in a copy of RUN, as copied with it; or there is none.
 * STRANGE: it may be another run's. */
enum moved_file { MOVED_NAMED, MOVED_LIKELY, MOVED_STRANGE };
int moved_file(enum moved_file *out, const struct run_config *run, size_t i, struct err *err);

/* Refuses the STRANGE file `path` in the place of device i, with what to do. Returns -EXDEV. */
int moved_refuse_file(const struct run_config *run, size_t i, const char *path, struct err *err);

/* `device.N` while device N is made again: a file with its superblock is this run's. */
#define MOVED_NEW "new"

/* Sets out to the path of the folder that dir, a path without links, is a copy of. It is "" if dir
 * is no copy, or if its original is gone. log: that of dir. Returns 0 or -errno. */
int moved_original(char out[PATH_MAX], struct runlog *log, const char *dir, struct err *err);

/* Before a run takes the devices that were named: 0, or -EBUSY if it is a copy and a process writes
 * to its original. The original's devices could be named in another way (a file and a loop device
 * on it), which no lock shows. */
int moved_original_rests(const struct run_config *run, struct err *err);

/* Refuses a restore of a run whose devices were all found at the places in --device; `mended` parts
 * of its snapshots were written again. The sentence names the command by which the run takes these
 * places. Returns misuse. */
int moved_refuse_restore(const struct run_config *run, uint64_t mended, struct err *err);

/* True if an absolute path was in the folder that `place` in run.db names. */
int moved_was_in(struct runlog *log, const char *path);

/* Record the files of the devices (`device.N`). Works inside the caller's transaction or alone. */
int moved_note(const struct run_config *run, struct err *err);

/* Record that the run is now in this folder. Call it after the devices were opened and are the
 * run's own. Works inside the caller's transaction or alone. */
int moved_settle(enum moved was, const struct run_config *run, struct err *err);

/* What `place` has for the folder dir, a path without links. */
enum { MOVED_PLACE = FILE_IDENTITY + PATH_MAX };
void moved_place(char out[MOVED_PLACE], const char *dir);

/* True if the folder dir, a path without links, is certainly not the one that `place` names, and
 * that path does not lead to it either, as to one that was put in its place. */
int moved_is_other(const char *dir, const char *place);

/* Store `place` for the folder dir, a path without links. */
int moved_store(struct runlog *log, const char *dir, struct err *err);

/* A folder that was made again where a lost one was (run/ranks/rank_again.h) owns what that owned.
 * moved_inherit: add `of`, the lost folder as in `place`, to `place.lost`, which has one a line,
 * and note in `place.heir` that dir is the heir: a copy of it is not.
 * moved_is_heir: true if `of` is there, dir has its path, and is the heir. */
int moved_inherit(struct runlog *log, const char *dir, const char *of, struct err *err);
int moved_is_heir(struct runlog *log, const char *dir, const char *of);

/* Give the open devices, which their user has named, a new word. It is first written to run.db
 * (`owner.next`), then to all superblocks, then to run.db again (`owner`). After a kill in between,
 * either word fits. owner, next: both words as in run.db; they are brought up to date. settle: what
 * else is written with the second commit; it runs inside its transaction. */
struct devices;
int owner_take(struct devices *d, char owner[SUPERBLOCK_WORD], char next[SUPERBLOCK_WORD],
               int (*settle)(void *ctx, struct err *err), void *ctx, struct err *err);
