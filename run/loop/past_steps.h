/* past_steps.h: what run.db says of the steps before the next one, and what they lack since a
 * process was killed. */
#pragma once

#include "run/folder/session.h"

/* True if an evaluation is due after this step (from 0). */
int past_eval_due(const struct session *s, uint64_t step);
/* *missing: true if the evaluation after the last step is due but, because of a kill, not
 * stored. */
int past_eval_missing(struct session *s, uint64_t next, int *missing, struct err *err);

/* Count the consecutive skipped steps before `next`, also across a stop. */
int past_skipped(struct session *s, uint64_t next, uint64_t *n, struct err *err);
/* The mean seconds of the last hundred steps before `next`; 0: none was measured. */
int past_seconds(struct session *s, uint64_t next, double *seconds, struct err *err);
