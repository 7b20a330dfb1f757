/* check_scrub.h: `siTrain check --scrub`: reads a run that another process may train meanwhile. */
#pragma once

#include "cmd/check_data.h"

/* Read the states, the best model and the snapshots of c->o->what, and those of its other ranks.
 * Prints what was read and what was not. Damage is counted in `c`. */
int check_scrub(struct check *c, struct err *err);

/* Say what a training has recorded of damaged snapshots (--scrub-bw), which check does not read. */
int check_recorded(struct check *c, struct err *err);
