/* best_carry.h: files that somebody put into RUN/best, and how they come along when a better model
 * takes its place. A model's own files are those of output_is_model's names. */
#pragma once

#include "data/base/err.h"

/* Refuse a RUN/best of which a part may not be moved or removed (mounted, immutable, another
 * user's), or in which a folder has the name of a model's file. */
int best_carry_check(const char *best, struct err *err);

/* Before the exchange: give the files in `best` a second name in `next`. A file that can have none,
 * or was saved a moment ago, follows with best_carry_rest. */
int best_carry_names(const char *best, const char *next, struct err *err);

/* What a folder next to RUN/best is: RUN/best until just now; RUN/best until a kill came; or what a
 * killed process has left, perhaps an unfinished model. */
enum best_carry_from {
    CARRY_REPLACED_NOW,
    CARRY_REPLACED_BEFORE_KILL,
    CARRY_PERHAPS_UNFINISHED
};

/* After the exchange: move from `old`, the former RUN/best, to `best` what `best` lacks, and what
 * somebody saved in `old` until then. A folder moves as a whole. What somebody saved in `best`
 * since stays. The rest is removed name by name, and `old` when it is empty: what comes to it
 * meanwhile stays there, and moves the next time. Of an unfinished model, no file of a model's name
 * moves. */
int best_carry_rest(const char *old, const char *best, enum best_carry_from is, struct err *err);
