/* training.h: a run at work: its stream and trainer, and the loop over steps. */
#pragma once

#include "model/step.h"
#include "plan/training_plan.h"

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
