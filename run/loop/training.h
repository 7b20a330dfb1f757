/* training.h: trains a run: opens its stream and trainer, and runs the loop over steps. */
#pragma once

#include "plan/training_plan.h"
#include "run/loop/ending.h"

/* How a training without errors ended. */
struct training_end {
    /* EARLY: by --early-stopping, also if it had ended so before; TIME: by --time-limit. */
    enum { TRAINING_DONE, TRAINING_STOPPED, TRAINING_NOTHING_LEFT, TRAINING_EARLY,
           TRAINING_TIME } how;
    uint64_t step, steps;       // steps done; steps of the run
    int      within_evaluation; // stopped during an evaluation; a resume repeats it
    struct ending ending;       // what EARLY and TIME come from
    int      evaluates;         // an evaluation is due after the next step
    int      exports;           // an export is, too (--export-every)
};

/* Train from the last commit to s->o.steps, and evaluate if there is evaluation data. */
int training_run(struct session *s, struct training_end *end, struct err *err);
