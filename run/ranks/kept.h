/* kept.h: the parts of a run's snapshots, of which each rank has one (run/folder/snapshots.h), as
 * all ranks see them together. A part may lie where its own rank finds it, or only with another
 * rank, which keeps it (keeping.h).
 *
 * Two parts are of one snapshot if they are of the same step and have the same history: the same
 * losses, rates and norms of the last steps, and the same options that decide what is computed. A
 * snapshot is whole if there is a whole part of each rank. */
#pragma once

#include "comm/comm.h"
#include "run/folder/snapshots.h"

/* A complete part. holder: who sees it; file: two holders see the same one in the same place; now:
 * it is of what its rank has done; 2: a rank is on its way to it. */
struct part_seen { uint64_t owner, holder, step, sum, file, n, now; };
struct parts_seen { struct part_seen *at; size_t n; };

/* The session of another rank of s's run, by which s's process finds that rank's parts in its own
 * folders, and takes or removes them. It borrows from s, and is not closed. */
struct session kept_session(const struct session *s, size_t rank);

/* Find the parts of all ranks that all ranks see. All ranks call it; s NULL: this rank has no
 * folder. by_parity: with those that may be made whole by their parity (made_whole.h). The caller
 * frees the list, also after a failure. */
int  kept_look(struct parts_seen *out, const struct session *s, struct comm *comm, int by_parity,
               struct err *err);
/* The same for one process: `one`, as one of n sessions of ranks that it sees, is `holder`. Adds to
 * *out. ranks: of the run. */
int  kept_add(struct parts_seen *out, const struct session *one, size_t ranks, int by_parity,
              struct err *err);
void kept_free(struct parts_seen *seen);

/* Two parts are of one snapshot. */
int  kept_same(const struct part_seen *a, const struct part_seen *b);
/* Whether this rank has no part of the snapshot. */
int  kept_lacks(const struct parts_seen *seen, uint64_t step, uint64_t sum, size_t rank);

/* Choose the snapshot of which all ranks have a part: after *step steps; or, with step NULL, the
 * latest of what the run has done, or else the newest. *out: a part of it. `dir` is the run, for
 * the sentence if there is none: misuse. All ranks choose the same one. */
int  kept_choose(struct part_seen *out, const struct parts_seen *seen, size_t ranks,
                 const uint64_t *step, const char *dir, struct err *err);

/* Who holds the part of this rank: the rank itself, or else the first one; size_t -1: nobody. */
size_t kept_holder(const struct parts_seen *seen, const struct part_seen *of, size_t owner);
/* The part `of` the rank `owner` that this process sees. -ENOENT: it is gone. */
int  kept_find(struct snapshot *out, const struct session *s, const struct part_seen *of,
               size_t owner, struct err *err);
