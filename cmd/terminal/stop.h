/* stop.h: Ctrl-C, for every command that may last. The first SIGINT, SIGTERM or SIGHUP (a terminal
 * that was closed; not under nohup) asks for a clean end and is answered at once, on stderr: what
 * is waited for, and what a second one does: that ends the process at once, as a kill would. A
 * signal within a second of the first one is the first one. Commands ask between the pieces of
 * their work, and exit with 130 (err_stopped). */
#pragma once

/* From here on signals are asked for, not obeyed. */
void stop_catch(void);
/* From here on the end is also asked for if the reader of stdout has gone away. Nothing is said
 * then, because nobody would read it. */
void stop_catch_pipe(void);

/* Members of struct events: was a clean end asked for? And what a first signal says from here on:
 * "stopping UNTIL (about 1m05s); Ctrl-C again after a second ends it at once, and WHAT", such as
 * "when step 3 is done" and "--resume computes it again". Both stay until they are set anew; NULL:
 * as in the beginning, "as soon as it can", and nothing. */
int  stop_asked(void *ctx);
void stop_waits(void *ctx, const char *until, double seconds);
void stop_then(void *ctx, const char *what);
/* When what is waited for is likely to be over, in seconds from now. 0: not known. */
void stop_expects(double seconds);
