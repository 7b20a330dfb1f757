/* training_plan.h: a session's trainer options and memory plan, before opening. */
#pragma once

#include "plan/memory.h"
#include "run/folder/session.h"

/* The options of a session's trainer, without the placement of activations (memory_placement). */
struct trainer_options training_options(const struct session *s);

/* True if micro-batches have at most batch x seq tokens: rows are padded, or packed. */
int training_varies(const struct session *s);

/* The memory plan of a session, which may exist only in memory. rows: most labelled examples
 * that one evaluation has; or all conversations that the run has. Sets s->run.frames,
 * grad_buffers, residual_in_ram and acts.
 * training_plan_here is the plan of a run that trains on this machine: it refuses more than this
 * machine's RAM, whatever --host-mem says (the limit of a container is not looked at). */
int training_plan(struct budget *out, struct session *s, uint64_t rows, struct err *err);
int training_plan_here(struct budget *out, struct session *s, uint64_t rows, struct err *err);
