/* job.c: opens this process's connection to the other ranks, and says whether it may print. */
#include "cmd/terminal/job.h"

#include <unistd.h>

static struct comm *job; // NULL: a single process
static char         name[32];

int job_open(struct comm **out, struct err *err)
{
    int rc = comm_started() > 1 ? comm_open(&job, err) : 0;

    if (!rc && job)
        snprintf(name, sizeof name, "rank %zu: ", job->rank);
    *out = job;
    return rc;
}

void job_close(int code)
{
    if (job && code && code != 130) { // 130: all ranks were asked to stop, and did
        fflush(stdout);
        comm_abort(job, code);
    }
    comm_close(job);
    job = NULL;
}

int         job_terminal(int fd) { return isatty(fd) && !comm_by_starter(); }
int         job_speaks(void) { return !job || job->rank == 0; }
const char *job_name(void) { return name; }
