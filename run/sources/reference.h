/* reference.h: what the reference model says to the examples of a run of pairs: the log-probability
 * of each, in RUN/NAME.ref beside RUN/NAME.ex. It is computed before the first step, when the
 * reference is the model itself (chat_source.h), and never again.
 *
 * The file is little-endian: a header, then a double for each example. run.db has the header's
 * checksum, which covers all, before the file has its name. So a file that run.db does not know is
 * somebody else's. */
#pragma once

#include "data/task/examples.h"
#include "run/folder/session.h"

/* *out: the log-probabilities of the examples x of RUN/NAME.ex, malloced; NULL if they are not
 * there yet. -EBADMSG if the file is damaged or another one. */
int reference_read(double **out, struct session *s, const char *name, const struct examples *x,
                   struct err *err);

/* Stores them. Refuses to replace a file that is not this run's. */
int reference_write(struct session *s, const char *name, const struct examples *x,
                    const double *logp, struct err *err);
