/* bench_child.c: another program started, and what it prints taken as JSON. It ends with its
 * parent. */
#include "cmd/bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUTPUT_BYTES = 4 << 20, NO_PROGRAM = 127 };

/* In the child: its stdout is the pipe, its stderr that file, or nothing; does not return. */
static void become(char *const *argv, const char *setting, int out, int said)
{
    char *pair = setting ? strdup(setting) : NULL;
    int   none = open("/dev/null", O_RDWR | O_CLOEXEC);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (pair)
        putenv(pair);
    dup2(none, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(said < 0 ? none : said, STDERR_FILENO);
    execvp(argv[0], argv);
    _exit(errno == ENOENT ? NO_PROGRAM : 1);
}

static size_t read_all(int fd, char *text, size_t size)
{
    size_t  n = 0;
    ssize_t got;

    while (n < size && ((got = read(fd, text + n, size - n)) > 0 || (got < 0 && errno == EINTR)))
        n += got > 0 ? (size_t)got : 0;
    return n;
}

/* Why there are no figures: the last line of what it said, if it said anything. */
static int child_fail(const char *program, int said, struct err *err)
{
    char        text[512] = "", *line;
    struct stat st;
    off_t       from = said >= 0 && !fstat(said, &st) && st.st_size >= (off_t)sizeof text
                           ? st.st_size - (off_t)sizeof text + 1 : 0;
    ssize_t     n = said < 0 ? 0 : pread(said, text, sizeof text - 1, from);

    for (text[n > 0 ? n : 0] = '\0'; n > 0 && text[n - 1] == '\n'; n--)
        text[n - 1] = '\0';
    line = strrchr(text, '\n');
    line = line ? line + 1 : text;
    return *line ? err_set(err, -EIO, "%s", line)
                 : err_set(err, -EIO, "%s ended without figures", program);
}

void bench_arg(struct bench_args *a, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (a->n == BENCH_MOST_ARGS || vasprintf(&a->v[a->n], fmt, ap) < 0)
        a->rc = -ENOMEM;
    else
        a->n++;
    va_end(ap);
}

void bench_args_free(struct bench_args *a)
{
    while (a->n > 0)
        free(a->v[--a->n]);
}

static int child_run(json_t **out, char *const *argv, const char *setting, char *text,
                     struct err *err)
{
    const char *begin, *name = argv[0];
    int         fds[2], status = 0, rc = 0, said;
    pid_t       pid;

    if (pipe2(fds, O_CLOEXEC))
        return err_set(err, -errno, "start %s: a pipe: %s", name, strerror(errno));
    said = memfd_create("stderr", MFD_CLOEXEC);
    pid = fork();
    if (pid == 0)
        become(argv, setting, fds[1], said);
    close(fds[1]);
    text[pid < 0 ? 0 : read_all(fds[0], text, OUTPUT_BYTES)] = '\0';
    close(fds[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    begin = strchr(text, '{'); // some say something first
    if (pid < 0)
        rc = err_set(err, -EAGAIN, "start %s: no process could be made", name);
    else if (WIFEXITED(status) && WEXITSTATUS(status) == NO_PROGRAM)
        rc = -ENOENT;
    else if (!WIFEXITED(status) || WEXITSTATUS(status) || !begin)
        rc = child_fail(name, said, err);
    else
        rc = json_parse(out, begin, strlen(begin), name, err);
    if (said >= 0)
        close(said);
    return rc;
}

int bench_child(json_t **out, struct bench_args *a, const char *setting, struct err *err)
{
    char *text = malloc(OUTPUT_BYTES + 1);
    int   rc = text && !a->rc ? 0 : err_set(err, -ENOMEM, "start a program: too many words for it, "
                                            "or out of memory");

    *out = NULL;
    if (!rc)
        rc = child_run(out, a->v, setting, text, err);
    bench_args_free(a);
    free(text);
    return rc;
}

int bench_self(json_t **out, struct bench_args *a, const char *setting, struct err *err)
{
    int rc = bench_child(out, a, setting, err);

    return rc == -ENOENT ? err_set(err, rc, "/proc is not there to start this program from") : rc;
}
