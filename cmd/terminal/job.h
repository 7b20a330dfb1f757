/* job.h: the ranks that mpirun or srun has started this program as (comm/comm.h), for commands that
 * work together. Rank 0 speaks; the others say what went wrong with them, and nothing else. */
#pragma once

#include "comm/comm.h"

/* All ranks; *out NULL where this process is alone. */
int  job_open(struct comm **out, struct err *err);
/* Before the process ends with this exit code: where it failed, all ranks end. */
void job_close(int code);

/* Whether this process is the one that speaks. */
int  job_speaks(void);
/* Whether a person sees what is drawn on this descriptor. mpirun gives its processes a terminal
 * also where its own output goes to a file, so of a job none is taken for one. */
int  job_terminal(int fd);
/* "", or "rank 2: " where there are several. */
const char *job_name(void);
