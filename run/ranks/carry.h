/* carry.h: sends files from one rank to another, as where a rank keeps another one's part of a
 * snapshot (rank_parts.h). Memory is bounded: each rank has one piece for each sending in which it
 * takes part. Holes of files are not sent, and are holes again. */
#pragma once

#include "comm/comm.h"
#include "data/base/watch.h"

/* One sending. `from` and `to` are the same on all ranks, and differ; a pair has one at a time.
 * folder, on `from`: it has the files; on `to`: it is there, and gets them. files, on `from`: a
 * line for each file, "BYTES NAME", as snapshot.files has them (run/snapshots/snapshots.h). db_as,
 * on `to`: the name that the file run.db gets, or NULL. */
struct carried {
    size_t      from, to;
    const char *folder, *files, *db_as;
};

/* Bytes of files that this rank has read and sent, and that came and were written. */
struct carry_moved { uint64_t sent, came; };

/* All ranks call it with the same sendings. Files are flushed. *moved grows. Returns -errno if
 * the ranks do not reach each other. *failed: 0, or -errno on every rank if a file could not be
 * read or written on any; why: the sentence of this rank. */
int carry(struct comm *comm, const struct carried *list, size_t n, const struct watch *watch,
          struct carry_moved *moved, int *failed, struct err *why, struct err *err);

/* Whether any rank has failed with rc, and why says with what. All ranks call it. *failed: rc, or
 * -EIO if only others have, and why says which and with what. Returns -errno if they do not reach
 * each other. */
int carry_agree(struct comm *comm, int rc, int *failed, struct err *why, struct err *err);
