/* stop.h: Ctrl-C, for every command that may last. The first SIGINT or SIGTERM asks for a clean end
 * and is answered at once, on stderr: what is waited for, and what a second one does: that ends the
 * process at once, as a kill would. Commands ask stop_asked between the pieces of their work, and
 * exit with 130 (err_stopped). */
#pragma once

#include "data/base/err.h"

/* From here on signals are asked for, not obeyed. As early as a command makes something. */
void stop_catch(void);
/* The same of a reader of stdout that went away, silently: nobody reads what would be said. */
void stop_catch_pipe(void);

/* Was a clean end asked for? */
int stop_asked(void);

/* What a first signal says from here on: "stopping WAITS (about N s); Ctrl-C again ends it at once,
 * and THEN", such as "when step 3 is done" and "--resume computes it again". Both stay until they
 * are set anew; NULL: as in the beginning, "as soon as it can", and nothing. */
void stop_waits(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void stop_then(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* When what is waited for is likely to be over, in seconds from now. 0, and after stop_waits: not
 * known. */
void stop_expects(double seconds);
