/* parts_view.h: which parts of snapshots there are, and whether they are whole, for siTrain
 * snapshots. All ranks look at what each of them sees, or one process at what the folders next to
 * RUN have. */
#pragma once

#include "run/ranks/rank_parts.h"

struct parts_found;

struct parts_view {
    struct comm        *comm; // NULL: one process
    struct session     *of;   // (n) the ranks' runs that this process sees
    size_t              n, ranks;
    struct parts_seen   seen;
    struct parts_found *found; // (seen.n) by the first part of each snapshot
};

/* s: rank 0's run, or of a job this rank's. It is used until close, and not closed. The caller
 * closes the view, also after a failure. */
int  parts_view_open(struct parts_view *v, const struct session *s, struct comm *comm,
                     struct err *err);
void parts_view_close(struct parts_view *v);

/* Read all parts that are seen. say() gets a sentence for each that is damaged. All ranks call
 * it. */
int parts_view_check(struct parts_view *v, void (*say)(const char *sentence), struct err *err);

/* Add to what is known of rank 0's part of a snapshot what is of the other ranks': whether it is
 * whole, or would be by parity. */
struct parts_lack {
    size_t rank;      // the first of which no part is seen; SIZE_MAX: none
    size_t by_parity; // the first whose part is only whole by its parity; SIZE_MAX: none
};
struct parts_lack parts_view_add(const struct parts_view *v, struct snapshot *at);

/* Snapshots of which rank 0 has no part: the i-th; NULL past the last. */
const struct part_seen *parts_view_other(const struct parts_view *v, size_t i);
