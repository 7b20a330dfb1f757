/* scrub_order.h: which portion of a run is read next. A portion is one device's states, the images
 * of mode mem, the best model, or one snapshot. */
#pragma once

#include "run/folder/session.h"

enum scrub_kind { SCRUB_STATES, SCRUB_SNAPSHOT, SCRUB_BEST };
struct scrub_portion {
    enum scrub_kind kind;
    size_t   file;        // of SCRUB_STATES: the device; of mode mem 0
    char     name[SESSION_PATH]; // as run.db has it (runlog_scrub)
    uint64_t position, verified_ns, passes, bytes; // runlog_scrub
    uint64_t damaged;     // in the pass under way
    uint64_t taken_ns;    // of a snapshot: it was read back then
    uint64_t step;        // of a snapshot: steps that are done
    int      parity;      // of a snapshot: it has some
    int      bad;         // damage was found in this or the last whole pass
    int      there;       // false: it is gone
    int      gone;        // and that was noted
    int      denied;      // this user may not read it: this process does not try again
    int      changed;     // run.db does not know it so
    int      over;        // a pass without damage has ended: damages of before are mended
};

struct scrub_portions { struct scrub_portion *at; size_t n; };

/* The portion that nobody has read for the longest time: the one whose last whole pass ended first,
 * and of several the first. A snapshot was read when it was taken. NULL: none is there that this
 * user may read. */
struct scrub_portion *scrub_order_next(const struct scrub_portions *all);

/* Find a portion by its name; NULL: there is none. */
struct scrub_portion *scrub_order_find(const struct scrub_portions *all, const char *name);

/* Find it, or add it at the end. NULL: out of memory. */
struct scrub_portion *scrub_order_add(struct scrub_portions *all, enum scrub_kind kind,
                                      const char *name);
