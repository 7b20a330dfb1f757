/* kept_view.h: the snapshots of a run of several ranks, as `siTrain snapshots` lists them: which
 * parts they lack, and whether the parts are whole. All ranks look at what each of them sees, or
 * one process at what the folders next to RUN have. */
#pragma once

#include "run/ranks/kept.h"

struct kept_view {
    struct comm      *comm;  // NULL: one process
    struct session   *of;    // (n) the ranks' runs that this process sees
    size_t            n, ranks;
    struct parts_seen seen;
};

/* s: rank 0's run, or of a job this rank's. It is used until close, and not closed. The caller
 * closes the view, also after a failure. */
int  kept_view_open(struct kept_view *v, const struct session *s, struct comm *comm,
                    struct err *err);
void kept_view_close(struct kept_view *v);

/* The first rank of which no part of this snapshot is seen, of one of which rank 0 has the part;
 * SIZE_MAX: there is none. */
size_t kept_view_lacks(const struct kept_view *v, const struct snapshot *at);
/* Snapshots of which rank 0 has no part: the i-th; NULL past the last. */
const struct part_seen *kept_view_other(const struct kept_view *v, size_t i);

/* Read all parts of the snapshot that are seen. say() gets a sentence for each that is damaged.
 * *damaged: how many are. All ranks call it. */
int  kept_view_check(const struct kept_view *v, const struct snapshot *at, uint64_t *damaged,
                     void (*say)(const char *sentence), struct err *err);
