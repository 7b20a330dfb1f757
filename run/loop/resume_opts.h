/* resume_opts.h: options that a resume gives anew, and the last step of a learning-rate schedule
 * (its horizon). Steps after it train at --min-lr, which is 0 by default. A resume with more steps
 * must therefore either extend the schedule or keep its end explicitly. */
#pragma once

#include "run/folder/session.h"

/* Send a notice if the run trains beyond the horizon. */
void schedule_end_tell(const struct session *s);
/* Record a changed horizon: in the settings schedule.step and schedule.was, and as a notice. Called
 * in the caller's transaction, before the options are stored. next: the first step (from 0) with
 * the new horizon. */
int  schedule_end_record(struct session *s, uint64_t next, struct err *err);

/* Apply the options of a resume to the stored ones (session_overlay). *train: the line's part of
 * train_rows. Both are changed: su+o+c without --compress takes the run's own ratio. first: the run
 * has not been trained yet. */
int resume_overlay(struct session *s, struct opt_line *line, struct train_opts *train, int first,
                   struct err *err);
