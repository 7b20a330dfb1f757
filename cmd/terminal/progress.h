/* progress.h: what a person sees of work under way: of a training run a line a step on stdout, or
 * on a terminal a bar that is drawn over; of anything else that lasts a line on a terminal, from
 * its third second to its end. There is one terminal: what is drawn on its last line is known to
 * all of these together. */
#pragma once

#include "run/folder/events.h"

/* --quiet: nothing of this is shown. */
void progress_quiet(int quiet);
int  progress_is_quiet(void);

/* Before a line of another kind: the bar's last state stays, other work's line is wiped. */
void progress_make_way(void);

/* Another line on stdout, the bar out of the way. */
void progress_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- training: steps [first, steps), of which every `every`-th has a line ---- */

void progress_begin(uint64_t first, uint64_t steps, uint64_t every);
void progress_step(const struct training_step *s);
/* Something else took time (an evaluation) after a step: the next rate begins here. */
void progress_pause(void);

/* ---- anything else that lasts: "WHAT  34%  left 42s" on stderr; members of struct events ---- */

void progress_work_begins(void *ctx, const char *what);
void progress_work_goes_on(void *ctx, uint64_t done, uint64_t total);
void progress_work_ends(void *ctx);
