/* newranks.h: a run made again for another number of ranks (ranked.h), with all that it has but its
 * devices copied into each rank's folder, and its states cut anew. The old run is only read. */
#pragma once

#include "run/folder/session.h"

struct newranks {
    const char *dir;     // the new run's folder; those of other ranks are beside it
    size_t      ranks, devices; // of each rank, as folders in its own; 0: as many as there are
};

/* `from` was opened to be written, and sees its other ranks (ranked_see). All folders are made, or
 * none. A kill leaves folders of which none is a run, and the next try clears; or rank 0's is one,
 * and whoever opens it finishes the others (ranked_finish, ranked_see). */
int newranks_create(struct session *from, const struct newranks *n, struct err *err);
