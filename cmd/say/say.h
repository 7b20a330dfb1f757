/* say.h: the life of a run as a person at a terminal is told of it. */
#pragma once

#include "cmd/run/events.h"
#include "cmd/run/training.h"

/* Notices on stderr, steps and evaluations on stdout, a bar where that is a terminal; the end is
 * asked for by Ctrl-C (stop.h). */
extern const struct events say_events;

/* What is said of a training that ended without a failure, and the command's exit code. */
int say_training_end(const struct session *s, const struct training_end *end);
