/* mem_choice.h: whether --mode mem would do for a run whose states are to live on devices. Whoever
 * has the memory is served as fast or faster by it, and its drives are written far less. */
#pragma once

#include "run/folder/session.h"

struct mem_choice {
    int      fits;               // all of it, within the run's memory; 0: nothing else is set
    int      as_fast;            // no more is computed again, and nothing is waited for
    uint64_t memory, limit;      // bytes that it would hold; --host-mem, or what there is
    double   written, written_own; // bytes a step, to all drives: in mem, and as the run is
};

/* The same run in mem: a session that only exists in memory, and borrows from s. To be closed. */
void mem_choice_session(struct session *out, const struct session *s);

/* Of a run that is planned: own is its plan, and s->run is as it was set by that. rows: as in
 * training_plan. Not where mem cannot do what it asks for: several ranks, real or null devices. */
void mem_choice_make(struct mem_choice *out, const struct session *s, const struct budget *own,
                     uint64_t rows);
