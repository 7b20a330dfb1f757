/* command.c: runs any command: parses its options, returns its exit code, and checks at the end
 * whether all that was printed has arrived. If not, it asks whether anybody still reads. */
#include "cmd/terminal/command.h"

#include "cmd/terminal/job.h"
#include "cmd/terminal/line.h"
#include "cmd/terminal/progress.h"
#include "cmd/terminal/stop.h"
#include "comm/comm.h"

#include <poll.h>
#include <unistd.h>

int command_failed(const char *name, const struct err *err)
{
    say_line(stderr, "siTrain %s: %s%s", name, job_name(), err->text);
    return err->stopped ? 130 : err->misuse ? 2 : 1;
}

/* Refuses several processes for commands that would each do the same to the same files. */
static int ranks_check(const struct opt_command *cmd, struct err *err)
{
    size_t n = comm_started();

    return n == 1 || cmd->by_ranks
               ? 0
               : err_misuse(err, "%zu processes were started together (by mpirun or srun), and "
                                 "this command is one process: start it without them", n);
}

int command_run(const struct opt_command *cmd, int argc, char **argv)
{
    struct opt_line line = { .cmd = cmd, .argc = argc, .argv = argv,
                             .options = calloc(1, cmd->size) };
    struct err      err = { 0 };
    int             code = line.options ? opt_parse(&line, &err) : opt_no_memory(&err);

    if (!code && (code = ranks_check(cmd, &err)))
        opt_release(&line);
    if (!code) {
        if (!cmd->killed)
            stop_catch();
        say_text(stderr, line.notices ? line.notices : "");
        code = cmd->run(&line, &err);
        progress_make_way();
        opt_release(&line);
    } else if (code > 0) {
        opt_help(cmd, line.help_all, stdout);
        code = 0;
    }
    free(line.options);
    int in_time = code < 0 && err.in_time, failed = code < 0 && !in_time;
    if (in_time && job_speaks())
        say_line(stderr, "siTrain: %s", err.text);
    code = failed ? command_failed(cmd->name, &err) : in_time ? 0 : code;
    job_close(failed && code == 130 ? 1 : code); // one rank stopped alone: end the others
    return code;
}

/* Whether the reader of stdout has gone. SIGPIPE is ignored (main.c), and an earlier write may have
 * seen EPIPE, so the pipe is asked. */
static int reader_gone(void)
{
    struct pollfd out = { .fd = STDOUT_FILENO };

    return poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP));
}

int command_finish(int code)
{
    errno = 0;
    if ((!fflush(stdout) && !ferror(stdout)) || code || reader_gone())
        return code;
    fprintf(stderr, "siTrain: writing to stdout: %s\n",
            errno ? strerror(errno) : "not all of it arrived");
    return 1;
}
