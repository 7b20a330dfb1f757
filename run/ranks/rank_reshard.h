/* rank_reshard.h: copies a run to a different number of ranks (job_run.h). Each rank's folder
 * gets a copy of the database, tokenizer and data. The optimizer states are partitioned again on
 * new devices. The old run is only read. */
#pragma once

#include "run/folder/session.h"

struct rank_reshard {
    const char *dir;     // rank 0's new folder; the other ranks' are next to it
    size_t      ranks, devices; // devices: per rank, folders in its RUN; 0: as before
};

/* Create the new run. `from` was opened for writing, and its other ranks are open (job_run_see).
 * Either all folders become a run or none does. After a kill there are two cases. If no folder is a
 * run yet, the next attempt removes them. If rank 0's folder is a run, opening it completes the
 * others (job_run_finish, job_run_see). */
int rank_reshard_create(struct session *from, const struct rank_reshard *n, struct err *err);
