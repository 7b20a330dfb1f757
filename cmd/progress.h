/* progress.h: what a person sees of a training run: a line a step on stdout, or on a terminal
 * a bar that is drawn over. */
#ifndef CMD_PROGRESS_H
#define CMD_PROGRESS_H

#include "model/step.h"

#include <stdint.h>

struct progress {
    uint64_t first, steps, log_every; // steps [first, steps) are this command's
    int      quiet, terminal;
    uint64_t start_ns, last_ns, last_step;
    int      drawn;                   // a bar stands on the terminal's last line
};

void progress_begin(struct progress *p, uint64_t first, uint64_t steps, uint64_t log_every, int quiet);

/* A step is over. hidden: share of the I/O's time that computing did not wait for, 0..1, or
 * negative where there was none. */
void progress_step(struct progress *p, uint64_t step, const struct step_result *r, double hidden,
                   uint64_t rss);

/* Something else took time (an evaluation): the next rate begins here. */
void progress_pause(struct progress *p, uint64_t step);

/* Another line on stdout, the bar out of the way. */
void progress_line(struct progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void progress_end(struct progress *p);

#endif
