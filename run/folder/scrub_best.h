/* scrub_best.h: reads the best model of a run, or of a snapshot, at a scrub's rate. */
#pragma once

#include "offload/upkeep/scrub.h"
#include "run/folder/exports.h"
#include "run/folder/session.h"

/* Read dir/best, which `log` describes, and compare it with its checksums. A model that is replaced
 * meanwhile is read again. 1: *out says what was found. 0: there is no best model. -EINTR: the
 * scrub's watch ends it. */
int scrub_best(struct exported *out, struct scrub *s, struct runlog *log, const char *dir,
               struct err *err);
