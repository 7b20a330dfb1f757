/* training_plan.h: a session's trainer and its memory plan, before anything of them is opened. */
#pragma once

#include "model/step.h"
#include "plan/memory.h"
#include "run/folder/session.h"

/* What the trainer of a session is opened with, but for the activations' ways (memory_ways). */
struct trainer_options training_options(const struct session *s);

/* The memory plan of a session, which may be one that only exists in memory. rows: of labelled
 * examples that are evaluated at once, at most. Sets s->run.frames, grad_buffers, residual_in_ram
 * and acts. The second refuses what this machine's RAM does not hold (a container's limit is not
 * looked at), whatever --host-mem says: the plan of a run that trains here. */
int training_plan(struct budget *out, struct session *s, uint64_t rows, struct err *err);
int training_plan_here(struct budget *out, struct session *s, uint64_t rows, struct err *err);
