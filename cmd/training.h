/* training.h: a run at work: its plan, its stream and trainer, and the loop over steps. */
#ifndef CMD_TRAINING_H
#define CMD_TRAINING_H

#include "cmd/memory.h"
#include "cmd/session.h"
#include "model/step.h"

/* The options of a session's trainer; kept is 0 before the plan. */
struct trainer_options training_options(const struct session *s);

/* The memory plan of a session, which may be one that only exists in memory. Sets s->run.frames and grad_buffers. */
int training_plan(struct budget *out, struct session *s, struct err *err);

/* Train from the last commit to s->o.steps, evaluating where there is eval data. *code: 0, or 130 if a signal ended it after a clean
 * stop. */
int training_run(struct session *s, int *code, struct err *err);

#endif
