/* mem_choice.h: whether a run whose states are to live on devices would fit into memory. If it
 * does, --mode mem is usually as fast or faster, and writes far less to the drives. */
#pragma once

#include "run/folder/session.h"

struct mem_choice {
    int      fits;               // the run fits into its memory limit; 0: no other field is set
    int      as_fast;            // it recomputes no more than the run does
    uint64_t memory, limit;      // bytes it would hold; --host-mem, or the machine's memory
    double   written, written_own; // bytes a step to all drives: in mode mem, and in the run's
};

/* The same run in mode mem: a session in memory that borrows from s. The caller closes it. */
void mem_choice_session(struct session *out, const struct session *s);

/* Sets *out for a run whose own plan is `own`; s->run is as that plan set it. rows: as in
 * training_plan. `fits` is 0 if mode mem cannot do what the run asks for: several ranks, real
 * devices, null devices. */
void mem_choice_make(struct mem_choice *out, const struct session *s, const struct budget *own,
                     uint64_t rows);
