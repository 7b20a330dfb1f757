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

/* A part. holder: who sees it, at this path (hashed); file: two holders see the same one in the
 * same place; whole: it is complete, without its parity; now: it is of what its rank has done; 2: a
 * rank is on its way to it. */
struct part_seen { uint64_t owner, holder, path, step, sum, file, n, whole, now; };
struct parts_seen { struct part_seen *at; size_t n; };

/* The session of another rank of s's run, by which s's process finds that rank's parts in its own
 * folders, and takes or removes them. It borrows from s, and is not closed. */
struct session rank_parts_session(const struct session *s, size_t rank);

/* Find the complete parts of all ranks that all ranks see. All ranks call it; s NULL: this rank has
 * no folder. by_parity: with those that may be made whole by their parity (made_whole.h). The
 * caller frees the list, also after a failure. */
int  rank_parts_look(struct parts_seen *out, const struct session *s, struct comm *comm,
                     int by_parity, struct err *err);
/* Add those that `one`, a rank's session, sees of all ranks: it is their holder. */
int  rank_parts_add(struct parts_seen *out, const struct session *one, int by_parity,
                    struct err *err);
void rank_parts_free(struct parts_seen *seen);

/* Two parts are of one snapshot. */
int  rank_parts_same(const struct part_seen *a, const struct part_seen *b);

/* Choose the snapshot of which all ranks have a part: after *step steps; or, with step NULL, the
 * latest of what the run has done, or else the newest. *out: a part of it. `dir` is the run, for
 * the sentence if there is none: misuse, or -ENOENT with step NULL. All ranks choose the same
 * one. */
int  rank_parts_choose(struct part_seen *out, const struct parts_seen *seen, size_t ranks,
                       const uint64_t *step, const char *dir, struct err *err);

/* The part `of` this snapshot that the rank `owner` goes back to: one that it sees itself, or else
 * one of the first rank that has any; of these a whole one; of these the newest. NULL: there is
 * none. */
const struct part_seen *rank_parts_of(const struct parts_seen *seen, const struct part_seen *of,
                                      size_t owner);
/* This very part, which this process sees. -ENOENT: it is gone. */
int  rank_parts_find(struct snapshot *out, const struct session *s, const struct part_seen *part,
                     struct err *err);

/* The list of all files of the part at this path, as snapshot.files has it, and behind them run.db;
 * malloced. */
int  rank_parts_files(char **out, const char *path, struct err *err);
