/* say.h: the life of a run as a person at a terminal is told of it. */
#pragma once

#include "run/folder/events.h"
#include "run/loop/training.h"

/* Notices on stderr; steps and evaluations on stdout, with a bar on a terminal. Ctrl-C asks for the
 * end (stop.h). */
extern const struct events say_events;

/* Returns say_events if this process speaks (job.h). Otherwise returns events that say nothing, and
 * only know whether the end is asked for. */
const struct events *say_events_of_job(void);

/* The number of parameters and, with adapters, of those that are trained. Returns buf. */
const char *say_parameters(char *buf, size_t size, const struct model_config *g);
