/* branches.h: what a run that went back to a snapshot had done beyond it. These rows of steps,
 * evaluations, choices and rewards are a branch: they move to tables of their own (left_steps,
 * left_evals, ..., with the number of the branch), and the snapshot's rows take their place. The
 * table `branches` has a row for each branch. Programs that do not know these tables ignore them.
 *
 * While the states of a run are written over by those of a snapshot, run.db has the setting
 * going_back and a format that older programs refuse. */
#pragma once

#include "data/db/runlog.h"

struct branch {
    uint64_t    to;      // in: the steps of the snapshot
    uint64_t    steps;   // in: the steps that were done
    const char *options; // in: what the run goes on with: "lr: 0.001 instead of 0.0003", one a line
    uint64_t    n;       // out: its number, from 1; 0: nothing was done beyond the snapshot
    uint64_t    first;   // out: its first step, from 0
};

/* Inside the caller's transaction: leave the branch that the run is in, for the snapshot whose
 * database is `from`. Rows of earlier branches that the run takes up again are removed there. */
int branches_leave(struct branch *b, struct runlog *log, struct runlog *from, struct err *err);

/* Store the setting going_back, and the format. options: the setting going_back.options; NULL: it
 * stays as it is. branches_end, inside the caller's transaction, removes all of these. */
int branches_begin(struct runlog *log, const char *to, const char *options, struct err *err);
int branches_end(struct runlog *log, struct err *err);
/* The format that the run has, or had before it began to go back. The second stores the setting
 * with such a format in a database of any format, as that of a snapshot, which becomes a run's. */
int branches_format(struct runlog *log, uint64_t *format, struct err *err);
int branches_begin_as(struct runlog *log, const char *to, const char *options, uint64_t format,
                      struct err *err);
