/* stop.h: Ctrl-C, for every command that may last. The first SIGINT or SIGTERM asks for a clean end and is
 * answered at once, on stderr: what is waited for, and what a second one does: that ends the process at once,
 * as a kill would. Commands ask stop_asked between the pieces of their work, and exit with 130 (err_stopped). */
#ifndef CMD_STOP_H
#define CMD_STOP_H

#include "data/err.h"

/* From here on signals are asked for, not obeyed. As early as a command makes something. */
void stop_catch(void);
/* The same of a reader of stdout that went away, silently: nobody reads what would be said. */
void stop_catch_pipe(void);

/* Was a clean end asked for? */
int stop_asked(void);
/* 0, or -EINTR with the sentence that it was stopped. */
int stop_look(struct err *err);

/* What a first signal will say from here on: "stopping WAITS; Ctrl-C again ends it at once, and THEN". waits:
 * such as "after this batch"; then NULL: nothing more is to be said. Until it is called: "soon". */
void stop_says(const char *waits, const char *then);
/* When the present piece of work is likely to be done, in seconds from now: said with it. 0: not known. */
void stop_expects(double seconds);

#endif
