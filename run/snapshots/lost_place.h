/* lost_place.h: what `siTrain restore` finds in the place of a device. It writes only into the file
 * that run.db names, or into one that it makes. */
#pragma once

#include "offload/layout/superblock.h"
#include "run/folder/session.h"

/* What is in the place of a device. */
enum found {
    FOUND_OWN,     // the device, or something that cannot be looked at
    FOUND_NOTHING, // its file or drive is gone
    FOUND_CUT,     // the device's file, too short
    FOUND_FILE,    // a file without a superblock that is not certainly the device's
    FOUND_STRANGE, // a file with the device's superblock that run.db does not name: another run's?
    FOUND_TAKEN,   // DEVICE_TAKEN
    FOUND_OTHER,   // DEVICE_OTHER
};

struct place {
    enum found        found;
    char             *path;  // of its file or drive; NULL: none. place_release frees it
    struct superblock super; // of all but FOUND_NOTHING and FOUND_FILE
};

/* Looks at the place of device i, which has so many bytes (0: its length does not matter). */
int  place_look(struct place *p, const struct session *s, size_t i, uint64_t bytes,
                struct err *err);
void place_release(struct place *p);

/* Refuses a place that holds another device's states, that may hold another run's, or from which a
 * link leads into another run's folder. */
int  place_refuse(const struct place *p, const struct session *s, size_t i, struct err *err);
