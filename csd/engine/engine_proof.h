/* engine_proof.h: an engine proves that it computes the same bits as this processor, before it gets
 * anybody's parameters. */
#pragma once

#include "csd/engine/engine.h"

/* Small updates of awkward numbers with every optimizer, by `e` and by update_area_pass: memory,
 * checksums, bounds and overflow must be equal. 0, or -errno and a sentence that begins with
 * `name`. Waits. */
int engine_prove(struct engine *e, const char *name, struct err *err);
