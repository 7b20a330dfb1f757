/* training.h: a run at work: its plan, its stream and trainer, and the loop over steps. */
#ifndef CMD_RUN_TRAINING_H
#define CMD_RUN_TRAINING_H

#include "cmd/run/memory.h"
#include "cmd/run/session.h"
#include "model/step.h"

/* The options of a session's trainer; kept is 0 before the plan. */
struct trainer_options training_options(const struct session *s);

/* The memory plan of a session, which may be one that only exists in memory. rows: of labelled
 * examples that are evaluated at once, at most. Sets s->run.frames, grad_buffers,
 * residual_in_ram and records. */
int training_plan(struct budget *out, struct session *s, uint64_t rows, struct err *err);

/* The plan of a run that does not exist yet: what is refused is refused before anything is made.
 * *records: for which its devices are to have room. */
int training_check_plan(const struct gpt_config *gpt, const struct train_opts *o, const char *dir,
                        uint64_t rows, struct run_records *records, struct err *err);

/* What a resume's command line says, over the stored options (session_overlay). *train is the
 * line's part of train_rows; the line is changed: su+o+c alone stands for the run's own ratio. */
int training_overlay(struct session *s, struct opt_line *line, struct train_opts *train, int first,
                     struct err *err);

/* A later end does not stretch the schedule: told, since steps at a rate of 0 change nothing. */
void training_tell_schedule(const struct session *s);

/* How a training ended that did not fail. */
struct training_end {
    enum { TRAINING_DONE, TRAINING_STOPPED, TRAINING_NOTHING_LEFT } how;
    uint64_t step, steps;       // done; the run's end
    int      within_evaluation; // stopped there: it is made again
};

/* Train from the last commit to s->o.steps, evaluating where there is eval data. */
int training_run(struct session *s, struct training_end *end, struct err *err);

#endif
