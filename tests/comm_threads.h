/* comm_threads.h: ranks that are threads of one process (comm/comm.h), for tests. What is sent
 * stays where it is until the other rank has looked for it and taken it from there: so both have to
 * go on looking, and memory that is given back or written too early shows. */
#pragma once

#include "comm/comm.h"

struct comm_threads;
struct comm_threads *comm_threads_new(size_t ranks);
/* Its ranks are of no use then. What was never taken is a mistake: of how many messages. */
size_t comm_threads_free(struct comm_threads *t);

/* Of one thread, or of several on channels of their own. Nobody closes it; comm_abort ends the job:
 * whatever is asked of it by any rank from then on fails. */
struct comm *comm_threads_rank(struct comm_threads *t, size_t rank);
