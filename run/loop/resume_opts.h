/* resume_opts.h: options that a resume gives anew. */
#pragma once

#include "run/folder/session.h"

/* Apply the options of a resume to the stored ones (session_overlay). *train: the line's part of
 * train_rows. Both are changed: su+o+c without --compress takes the run's own ratio. first: the run
 * has not been trained yet. */
int resume_overlay(struct session *s, struct opt_line *line, struct train_opts *train, int first,
                   struct err *err);
