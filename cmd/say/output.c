/* output.c: did what was printed arrive, and if not, is there anybody who missed it? */
#include "cmd/say/output.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

/* SIGPIPE is ignored (main.c), and an earlier write may have seen EPIPE: the pipe itself is asked.
 */
static int reader_gone(void)
{
    struct pollfd out = { .fd = STDOUT_FILENO };

    return poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP));
}

int output_finish(int code)
{
    if ((!fflush(stdout) && !ferror(stdout)) || code || reader_gone())
        return code;
    perror("siTrain: writing to stdout");
    return 1;
}
