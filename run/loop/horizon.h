/* horizon.h: the end of a schedule, from where on steps are trained at --min-lr, which is 0 if
 * nobody says otherwise. A resume that asks for more steps than the run had says what it means: the
 * schedule is extended, or its end is kept by name. */
#pragma once

#include "run/folder/session.h"

/* Whether the options, as the line of a resume has changed them, say so. was: the run's steps
 * before. */
int  horizon_check(const struct session *s, const struct opt_line *line, uint64_t was,
                   struct err *err);
/* That a later end does not stretch the schedule is told. */
void horizon_tell(const struct session *s);
/* Before the options are stored, in the caller's transaction: from step `next` (from 0) on the
 * schedule has another horizon than run.db says, which is kept and told. */
int  horizon_record(struct session *s, uint64_t next, struct err *err);
