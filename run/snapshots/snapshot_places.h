/* snapshot_places.h: where the snapshots of a run lie: DIR/NAME-ID/step-00000400 (snapshots.h). A
 * folder with such a name need not be a snapshot of the run: its run.db says so. */
#pragma once

#include "run/folder/session.h"

/* Where the run's snapshots are taken without a --snapshot-dir: of several ranks in rank 0's folder
 * if that is seen, or with --snapshot-on hosts in the rank's own. */
void snapshot_places_own(char out[SESSION_PATH], const struct session *s);
/* The rank's own folder of them in any case, where others are put that were fetched. */
void snapshot_places_ranks(char out[SESSION_PATH], const struct session *s);
/* The folder of the rank whose parts are looked for: RUN, or of a rank with another keeper
 * (session.h, kept_by) the folder that it has on its own host. */
void snapshot_places_rank(char out[SESSION_PATH], const struct session *s);
/* The name of this run's snapshot after `step` steps in a snapshot directory: the folder NAME-ID,
 * and the name in it. NAME is the beginning of RUN's name, at most 64 bytes; only ID decides whose
 * it is. */
void snapshot_places_names(char folder[SESSION_PATH], char name[64], const struct session *s,
                           uint64_t step);
/* 0, or misuse: the path of a snapshot's database would be too long in this snapshot directory, or
 * in each one of the run's. */
int snapshot_places_fits(const struct session *s, const char *dir, struct err *err);
int snapshot_places_check(const struct session *s, struct err *err);

/* True if path[0..n) ends with the name NAME-ID of such a folder, of a run or rank of this id.
 * Ranks share that of rank 0. RUN may have been renamed. */
int snapshot_places_is_folder(const char *path, size_t n, const char *id);
/* True if a snapshot of this rank may have this name in a folder NAME-ID. */
int snapshot_places_is_step(const struct session *s, const char *name);
/* Call each(ctx, DIR/NAME-ID, 0, NULL) for each of the run's folders in all snapshot directories,
 * until it returns other than 0, which is returned. A directory that is not there is skipped: its
 * drive may be away. One whose names could not all be read is passed itself, with -errno in
 * `unread` and the sentence in `why`. */
typedef int snapshot_places_fn(void *ctx, const char *folder, int unread, const struct err *why);
int snapshot_places_each(const struct session *s, snapshot_places_fn *each, void *ctx);
