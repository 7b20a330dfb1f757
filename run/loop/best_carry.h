/* best_carry.h: files that somebody put into RUN/best, and how they come along when a better model
 * takes its place. A model's own files are those of output_is_model's names. */
#pragma once

#include "data/base/err.h"

/* Refuse a RUN/best of which a part may not be moved or removed: mounted, immutable, another
 * user's. */
int best_carry_check(const char *best, struct err *err);

/* Before the exchange: give the files in `best` a second name in `next`. A file that can have none,
 * or was saved a moment ago, follows with best_carry_rest. */
int best_carry_names(const char *best, const char *next, struct err *err);

/* What a folder next to RUN/best is: the one that was just replaced; one that was replaced before a
 * kill; or what a killed process has left, which may be an unfinished model. */
enum best_left { BEST_REPLACED, BEST_WAS_REPLACED, BEST_MAYBE_BEGUN };

/* After the exchange: move from `old`, the former RUN/best, to `best` what `best` lacks, and what
 * somebody saved in `old` until then. A folder moves as a whole. What somebody saved in `best`
 * since stays. The rest is removed name by name, and `old` when it is empty: what comes to it
 * meanwhile stays there, and moves the next time. Of an unfinished model, no file of a model's name
 * moves. */
int best_carry_rest(const char *old, const char *best, enum best_left left, struct err *err);
