/* progress.h: what a person sees of work under way: of a training run a line a step on stdout, or
 * on a terminal a bar that is drawn over; of anything else that lasts a line on a terminal, from
 * its third second to its end. There is one terminal: what is drawn on its last line is known to
 * all of these together. */
#ifndef CMD_SAY_PROGRESS_H
#define CMD_SAY_PROGRESS_H

#include "data/base/watch.h"
#include "model/step.h"

#include <stdint.h>

/* --quiet: nothing of this is shown. */
void progress_quiet(int quiet);

/* A line of another kind is about to be printed: the bar's last state stays, other work's line is
 * wiped. */
void progress_make_way(void);

/* ---- training ---- */

struct progress {
    uint64_t first, steps, log_every; // steps [first, steps) are this command's
    int      terminal;
    uint64_t start_ns, last_ns, last_step;
};

void progress_begin(struct progress *p, uint64_t first, uint64_t steps, uint64_t log_every);

/* A step is over. hidden: share of the I/O's time that computing did not wait for, 0..1, or
 * negative where there was none. */
void progress_step(struct progress *p, uint64_t step, const struct step_result *r, double hidden,
                   uint64_t rss);

/* Something else took time (an evaluation): the next rate begins here. */
void progress_pause(struct progress *p, uint64_t step);

/* Another line on stdout, the bar out of the way. */
void progress_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- anything else that lasts ---- */

/* Begun and ended by a command; its watch is handed to who works: it draws "WHAT  34%  left 0:42"
 * on stderr, and says when a person has asked for the end (stop.h), whose answer names WHAT. */
struct work {
    struct watch watch; // points at this: a work is not copied
    char         what[256];
    uint64_t     start_ns, drawn_ns, looked_ns;
};

void work_begin(struct work *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void work_end(struct work *w);

#endif
