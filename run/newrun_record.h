/* newrun_record.h: where a new run comes from, as run.db stores it (settings.h lists the keys).
 * `report --config` makes the same run again from it. */
#pragma once

#include "run/recipe.h"

/* Stores all of it. Call within a transaction. */
int newrun_record(struct session *s, const struct newrun *n, struct err *err);
