/* training_plan.h: what a training needs, before it is opened. */
#ifndef CMD_RUN_TRAINING_PLAN_H
#define CMD_RUN_TRAINING_PLAN_H

#include "cmd/run/memory.h"
#include "cmd/run/session.h"
#include "model/step.h"

/* The options of a session's trainer; kept is 0 before the plan. */
struct trainer_options training_options(const struct session *s);

/* The memory plan of a session, which may be one that only exists in memory. rows: of labelled
 * examples that are evaluated at once, at most. Sets s->run.frames, grad_buffers,
 * residual_in_ram and records. */
int training_plan(struct budget *out, struct session *s, uint64_t rows, struct err *err);

/* The same of a run that trains on this machine, whose RAM must hold it. */
int training_plan_here(struct budget *out, struct session *s, uint64_t rows, struct err *err);

/* The plan of a run that does not exist yet: what is refused is refused before anything is made.
 * *acts: for which its devices are to have room. */
int training_check_plan(const struct gpt_config *gpt, const struct train_opts *o, const char *dir,
                        uint64_t rows, struct run_acts *acts, struct err *err);

#endif
