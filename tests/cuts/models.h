/* models.h: the models that a run has written: RUN/best, and RUN/checkpoint-STEP (--export-every).
 * Each is read to the last byte. */
#pragma once

#include "data/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { MODELS = 64 };

struct model { uint64_t step; uint32_t sum; }; // step 0: the best one

struct models { struct model at[MODELS]; size_t n; };

/* Add those of the run to `out`. -errno with a sentence: one of them is damaged, or in parts. */
int models_take(struct models *out, const char *run, struct err *err);
int models_has(const struct models *all, const struct model *m);
int models_same(const struct models *a, const struct models *b); // in any order
/* How many are of a step, or the best one. */
size_t models_count(const struct models *all, int best);
