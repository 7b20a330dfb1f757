/* schedule_end.h: the last step of a learning-rate schedule (its horizon). Steps after it train at
 * --min-lr, which is 0 by default. A resume with more steps must therefore either extend the
 * schedule or keep its end explicitly. */
#pragma once

#include "run/folder/session.h"

/* Check the options of a resume. Returns misuse if it asks for steps beyond the horizon and
 * --schedule-steps is not given. was: the run's steps before. */
int  schedule_end_check(const struct session *s, const struct opt_line *line, uint64_t was,
                   struct err *err);
/* Send a notice if the run trains beyond the horizon. */
void schedule_end_tell(const struct session *s);
/* Record a changed horizon: in the settings schedule.step and schedule.was, and as a notice. Called
 * in the caller's transaction, before the options are stored. next: the first step (from 0) with
 * the new horizon. */
int  schedule_end_record(struct session *s, uint64_t next, struct err *err);
