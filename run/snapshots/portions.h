/* portions.h: the files of a snapshot that lie on the drives of the run's devices (--snapshot-on
 * devices). For each device there are two: its portion, a device of the snapshot; and parity of the
 * others (offload/upkeep/parity_files.h). They lie next to the device's own file, in a folder
 * NAME-ID as snapshots have it: step-00000400.WORD.dev1 and step-00000400.WORD.parity1. WORD is the
 * snapshot's owner word, so no other run's snapshot, nor a copy's, has these names.
 *
 * The snapshot's run.db names them:
 *
 *     snapshot.parity    how many devices may be lost, a space, the checksum of the sums in hex
 *     snapshot.portions  bytes, a space, the path; two lines per device: its portion,
 *                        its parity file
 *     snapshot.folders   the file_identity of the folder in which each of these files was made, one
 *                        per line in the same order. Older snapshots have none
 *     option.device, device.N    the portions, as of any run with --device
 *
 * While files are made, the run's run.db has the setting portions.begun: which folder RUN is (as
 * snapshot.of), the snapshot's folder under way, and the paths, one a line. In the first two a line
 * break is "\n", and a backslash is two. */
#pragma once

#include "offload/upkeep/parity_files.h"
#include "run/folder/session.h"

struct portions {
    size_t    n, parity;        // devices (0: it has no such files); losses that they bear
    uint32_t  sums_crc;
    const char **path;          // (2 n) the portions of all devices, then their parity files; owned
    uint64_t *bytes;            // (2 n) of these files
    char     (*folder)[FILE_IDENTITY]; // (2 n) in which each was made; "": not known
};

/* Refuse a run whose name has a line break: the files have it in their paths, which are lines. */
int portions_can(const char *run, struct err *err);
/* Send a notice if one lost drive would take more than one device with it, or run.db. */
int portions_notice(struct session *s, struct err *err);

/* Name the files of a new snapshot, make their folders, and note them as begun. */
int  portions_begin(struct portions *p, struct session *s, uint64_t step, const char *word,
                    const char *folder, struct err *err);
/* Make the parity files of the snapshot `to`, whose portions are there, and set p->bytes. */
int  portions_encode(struct portions *p, const struct run_config *to, uint64_t step,
                     const struct watch *watch, struct beside *beside, struct err *err);
/* Set paths, parity and sums_crc of *f; the caller sets the other members. The paths are p's. */
void portions_parity(struct parity_files *f, const struct portions *p);
/* The folder in which the files of device i of the run belong; malloced. */
char *portions_folder(const struct session *s, size_t i, struct err *err);
/* In a transaction of the snapshot's log: store where they are. */
int  portions_store(const struct portions *p, struct runlog *log, struct err *err);
/* The snapshot has its name: they are its files. */
int  portions_end(struct session *s, struct err *err);
void portions_release(struct portions *p); // accepts the zero state
/* Undo, in place, what the first two lines of portions.begun have for a line break. */
void portions_line_path(char *line);

/* Load them from a snapshot's log. p->n 0: it has none. -EBADMSG: the settings are damaged. */
int    portions_load(struct portions *p, struct runlog *log, struct err *err);
/* How many devices lack a file, or have one of another size; *first: the first of them. */
size_t portions_lost(const struct portions *p, size_t *first);
/* Bytes that they take on the drives. */
uint64_t portions_held(const struct portions *p);

/* Whether a path is one that siTrain gives to file k, of a run of this id, in the order of the
 * lines of snapshot.portions and of the paths in portions.begun: even k are portions, odd k parity
 * files. No other file is written or removed, whatever run.db says. */
int portions_named(const char *path, size_t k, const char *id);
/* Whether a snapshot with this snapshot.of was certainly taken of the folder RUN, or of a lost one
 * whose place RUN has (moved.h). A copy of RUN has copies of its snapshots, whose portions are the
 * original's. */
int portions_certain(const struct session *s, const char *of);
/* Whether file k, in the order of p->path, of a snapshot that is certain, may be written to or
 * removed. If RUN was renamed since, somebody else's files may be at the old paths, such as a
 * backup of RUN and of its drives: then the folder must be the one in which the file was made. */
int portions_is_own(const struct portions *p, size_t k, const struct session *s, const char *of);
/* Forget the paths of all others. Returns how many; first: one of them. */
size_t portions_forget_others(struct portions *p, char first[SESSION_PATH], const struct session *s,
                              const char *of);
/* Remove the files, and folders that are empty then, for good: nothing names them afterwards, so a
 * power cut must not bring them back. -errno: one is there still. */
int portions_remove(const struct portions *p);
int portions_remove_file(const char *path); // one such file
