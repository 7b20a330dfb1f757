/* rank_parts.h: the parts of a run's snapshots, as all ranks see them together. Each rank has a
 * part of each snapshot (run/snapshots/snapshots.h). A part may lie where its own rank finds it, or
 * only with another rank, which keeps it (keeping.h).
 *
 * Two parts are of one snapshot if they are of the same step and have the same history: the same
 * losses, rates and norms of the last steps, and the same options that decide what is computed. A
 * snapshot is whole if there is a whole part of each rank. */
#pragma once

#include "comm/comm.h"
#include "run/snapshots/snapshots.h"

/* A complete part. holder: who sees it; file: two holders see the same one in the same place; now:
 * it is of what its rank has done; 2: a rank is on its way to it. */
struct part_seen { uint64_t owner, holder, step, sum, file, n, now; };
struct parts_seen { struct part_seen *at; size_t n; };

/* The session of another rank of s's run, by which s's process finds that rank's parts in its own
 * folders, and takes or removes them. It borrows from s, and is not closed. */
struct session rank_parts_session(const struct session *s, size_t rank);

/* Find the parts of all ranks that all ranks see. All ranks call it; s NULL: this rank has no
 * folder. by_parity: with those that may be made whole by their parity (made_whole.h). The caller
 * frees the list, also after a failure. */
int  rank_parts_look(struct parts_seen *out, const struct session *s, struct comm *comm,
                     int by_parity, struct err *err);
void rank_parts_free(struct parts_seen *seen);

/* Two parts are of one snapshot. */
int  rank_parts_same(const struct part_seen *a, const struct part_seen *b);

/* Choose the snapshot of which all ranks have a part: after *step steps; or, with step NULL, the
 * latest of what the run has done, or else the newest. *out: a part of it. `dir` is the run, for
 * the sentence if there is none: misuse. All ranks choose the same one. */
int  rank_parts_choose(struct part_seen *out, const struct parts_seen *seen, size_t ranks,
                       const uint64_t *step, const char *dir, struct err *err);

/* Who holds the part of this rank: the rank itself, or else the first one; size_t -1: nobody. */
size_t rank_parts_holder(const struct parts_seen *seen, const struct part_seen *of, size_t owner);
/* The part `of` the rank `owner` that this process sees: the newest whole one, or else the newest
 * whose folder has all its files. -ENOENT: it is gone. */
int  rank_parts_find(struct snapshot *out, const struct session *s, const struct part_seen *of,
                     size_t owner, struct err *err);

/* The list of all files of the part at this path, as snapshot.files has it, and behind them run.db;
 * malloced. */
int  rank_parts_files(char **out, const char *path, struct err *err);

/* ---- for siTrain snapshots: which parts there are, and whether they are whole. All ranks look at
 * what each of them sees, or one process at what the folders next to RUN have ---- */

struct parts_view {
    struct comm      *comm;  // NULL: one process
    struct session   *of;    // (n) the ranks' runs that this process sees
    size_t            n, ranks;
    struct parts_seen seen;
};

/* s: rank 0's run, or of a job this rank's. It is used until close, and not closed. The caller
 * closes the view, also after a failure. */
int  parts_view_open(struct parts_view *v, const struct session *s, struct comm *comm,
                    struct err *err);
void parts_view_close(struct parts_view *v);

/* The first rank of which no part of this snapshot is seen, of one of which rank 0 has the part;
 * SIZE_MAX: there is none. */
size_t parts_view_lacks(const struct parts_view *v, const struct snapshot *at);
/* Snapshots of which rank 0 has no part: the i-th; NULL past the last. */
const struct part_seen *parts_view_other(const struct parts_view *v, size_t i);

/* Read all parts of the snapshot that are seen. say() gets a sentence for each that is damaged.
 * *damaged: how many are. All ranks call it. */
int  parts_view_check(const struct parts_view *v, const struct snapshot *at, uint64_t *damaged,
                     void (*say)(const char *sentence), struct err *err);
