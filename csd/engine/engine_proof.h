/* engine_proof.h: an engine shows that it makes this processor's bits before it is given anybody's
 * parameters. */
#pragma once

#include "csd/engine/engine.h"

/* Small updates of awkward numbers by every optimizer, through `e` and through update_area_pass:
 * memory, checksums, bounds and overflow must be the same. 0; else -errno and a sentence that
 * begins with `name`. Waits. */
int engine_prove(struct engine *e, const char *name, struct err *err);
