/* portions_scrub.h: reads the parity of a snapshot in the background, at the pace of a scrub. */
#pragma once

#include "offload/upkeep/scrub.h"
#include "run/snapshots/portions.h"

/* The parity files of one snapshot. They stay open from piece to piece, because their checksums,
 * which are read first, are as long for one piece as for all. */
struct portions_scrub {
    // private
    struct portions     p; // n 0: not open
    struct parity_files files;
    struct watch        watch;
    struct scrub       *pace;
    uint64_t            counted;
};

/* Read piece `piece` of an open snapshot's parity. The first call opens the files: *o is in the
 * zero state. One of scrub_found, NOTHING without parity, and a sentence for DAMAGED; or -errno.
 * *more: there is another piece. */
int  portions_scrub(struct portions_scrub *o, int *more, struct scrub *s,
                    const struct session *snapshot, uint64_t piece, struct err *err);
/* Before the snapshot is closed. Back to the zero state, which it accepts. */
void portions_scrub_close(struct portions_scrub *o);
