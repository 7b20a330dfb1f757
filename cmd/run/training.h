/* training.h: a run at work: its stream and trainer, and the loop over steps. */
#pragma once

#include "cmd/run/memory.h"
#include "cmd/run/session.h"
#include "model/step.h"

/* What the trainer of a session is opened with, but for the activations' ways (memory_ways). */
struct trainer_options training_options(const struct session *s);

/* The memory plan of a session, which may be one that only exists in memory. rows: of labelled
 * examples that are evaluated at once, at most. Sets s->run.frames, grad_buffers, residual_in_ram
 * and acts. The second refuses what this machine's RAM does not hold (a container's limit is not
 * looked at), whatever --host-mem says: the plan of a run that trains here. */
int training_plan(struct budget *out, struct session *s, uint64_t rows, struct err *err);
int training_plan_here(struct budget *out, struct session *s, uint64_t rows, struct err *err);

/* What a resume's command line says, over the stored options (session_overlay). *train is the
 * line's part of train_rows; the line is changed: su+o+c alone stands for the run's own ratio. */
int training_overlay(struct session *s, struct opt_line *line, struct train_opts *train, int first,
                     struct err *err);

/* How a training ended that did not fail. */
struct training_end {
    enum { TRAINING_DONE, TRAINING_STOPPED, TRAINING_NOTHING_LEFT } how;
    uint64_t step, steps;       // done; the run's end
    int      within_evaluation; // stopped there: it is made again
};

/* Train from the last commit to s->o.steps, evaluating where there is eval data. */
int training_run(struct session *s, struct training_end *end, struct err *err);
