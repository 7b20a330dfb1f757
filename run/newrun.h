/* newrun.h: creates a run. Its folder is created completely or not at all. */
#pragma once

#include "run/recipe.h"

/* Create the run. All checks come before anything is created. Refused are: a folder that is not
 * empty; data that corpus_check refuses; --keep-best without evaluation data; a memory plan above
 * the limit, if there is training data.
 *
 * A head is initialised anew if the initial parameters have none, or one for another number of
 * classes. After a failure, everything that was created is removed. A kill leaves a folder without
 * run.db, and the next run of that name clears it, but for tokens of the same texts. So it is after
 * a stop, and after err_time: o->time_limit was over while texts were tokenised. */
int newrun_create(const struct newrun *n, struct err *err);
