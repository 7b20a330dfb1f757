/* best_carry.h: files that somebody put into RUN/best, and how they come along when a better model
 * takes its place. A model's own files are those of output_is_model's names. */
#pragma once

#include "data/base/err.h"

/* Refuse a RUN/best of which a part may not be moved or removed: mounted, immutable, another
 * user's. */
int best_carry_check(const char *best, struct err *err);

/* Before the exchange: give the files in `best` a second name in `next`. A file that can have none
 * follows with best_carry_rest. */
int best_carry_names(const char *best, const char *next, struct err *err);

/* After the exchange: move from `old`, the former RUN/best, to `best` what `best` lacks, and what
 * somebody saved in `old` until then. A folder moves as a whole. What somebody saved in `best`
 * since stays. killed: a kill came in between, and the model's files in `old` are left there. */
int best_carry_rest(const char *old, const char *best, int killed, struct err *err);
