/* bench_child.c: another program started, and what it prints taken as JSON. It ends with its
 * parent. */
#include "bench/bench.h"

#include <argz.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NO_PROGRAM = 127 };

void bench_arg(struct bench_args *a, const char *name, const char *value)
{
    char *word = NULL;

    if (asprintf(&word, "%s%s", name, value) < 0 || argz_add(&a->words, &a->bytes, word))
        a->failed = 1;
    free(word);
}

void bench_words(struct bench_args *a, const char *fmt, ...)
{
    va_list ap;
    char   *text = NULL;

    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0 || argz_add_sep(&a->words, &a->bytes, text, ' '))
        a->failed = 1;
    va_end(ap);
    free(text);
}

void bench_args_model(struct bench_args *a, const struct model_opts *model, size_t vocab,
                      const struct train_opts *o)
{
    const struct { const char *name; uint64_t size; } sizes[] = {
        { "vocab", model->init ? 0 : vocab }, { "n-layer", model->n_layer },
        { "n-head", model->n_head }, { "n-embd", model->n_embd },
        { "n-kv-head", model->n_kv_head }, { "head-dim", model->head_dim },
        { "n-inner", model->n_inner } };

    if (model->init)
        bench_arg(a, "--init=", model->init);
    if (model->model)
        bench_arg(a, "--model=", model->model);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].size)
            bench_words(a, "--%s=%" PRIu64, sizes[i].name, sizes[i].size);
    bench_words(a, "--batch=%" PRIu64 " --seq=%" PRIu64 " --threads=%" PRIu64, o->batch, o->seq,
                o->threads);
}

/* In the child: its stdout and stderr are these files; does not return. */
static void become(const struct bench_args *a, const char *setting, const int files[2])
{
    char **argv = calloc(argz_count(a->words, a->bytes) + 1, sizeof *argv);

    if (!argv)
        _exit(1);
    argz_extract(a->words, a->bytes, argv);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (setting)
        putenv((char *)(uintptr_t)setting);
    dup2(open("/dev/null", O_RDWR | O_CLOEXEC), STDIN_FILENO);
    dup2(files[0], STDOUT_FILENO);
    dup2(files[1], STDERR_FILENO);
    execvp(argv[0], argv);
    _exit(errno == ENOENT ? NO_PROGRAM : 1);
}

/* All that was written into a file in memory; malloced. */
static char *text_of(int fd)
{
    struct stat st = {0};
    char       *text = fstat(fd, &st) ? NULL : calloc(1, (size_t)st.st_size + 1);

    if (text && pread(fd, text, (size_t)st.st_size, 0) < 0)
        *text = '\0';
    return text;
}

/* Why there are no figures: the last line of what it said, if it said anything. */
static int child_fail(const char *program, char *said, struct err *err)
{
    for (size_t n = said ? strlen(said) : 0; n > 0 && said[n - 1] == '\n'; n--)
        said[n - 1] = '\0';
    char *line = said ? strrchr(said, '\n') : NULL;
    line = line ? line + 1 : said;
    return line && *line ? err_set(err, -EIO, "%s", line)
                         : err_set(err, -EIO, "%s ended without figures", program);
}

/* The watch hears that it goes on; how far it is nobody knows. */
static void wait_for_child(pid_t pid, int *status, const struct watch *watch)
{
    const struct timespec pause = {.tv_nsec = 100000000};
    pid_t                 ended;
    struct err            unheard;

    while ((ended = waitpid(pid, status, watch ? WNOHANG : 0)) != pid) {
        if (ended < 0 && errno != EINTR)
            return;
        if (watch && !ended) {
            nanosleep(&pause, NULL);
            watch_look(watch, 0, 0, &unheard);
        }
    }
}

int bench_child(json_t **out, struct bench_args *a, const char *setting, struct err *err)
{
    int   files[2] = {memfd_create("out", MFD_CLOEXEC), memfd_create("err", MFD_CLOEXEC)};
    int   status = 0, rc;
    pid_t pid = -1;

    if (out)
        *out = NULL;
    if (!a->failed && files[0] >= 0 && files[1] >= 0)
        pid = fork();
    if (pid == 0)
        become(a, setting, files);
    if (pid > 0)
        wait_for_child(pid, &status, a->watch);
    char *text = text_of(files[0]), *said = text_of(files[1]);
    char *begin = text ? strchr(text, '{') : NULL; // some say something first

    if (a->failed)
        rc = err_set(err, -ENOMEM, "start a program: out of memory for its words");
    else if (pid < 0)
        rc = err_set(err, -EAGAIN, "start %s: no process could be made", a->words);
    else if (WIFEXITED(status) && WEXITSTATUS(status) == NO_PROGRAM)
        rc = err_set(err, -ENOENT, "%s", strcmp(a->words, BENCH_SELF) ? "not installed" :
                     "/proc is not there to start this program from");
    else if (!WIFEXITED(status) || WEXITSTATUS(status) || (out && !begin))
        rc = child_fail(a->words, said, err);
    else
        rc = !out ? 0 : json_parse(out, begin, strlen(begin), a->words, err);
    free(text);
    free(said);
    close(files[0]);
    close(files[1]);
    free(a->words);
    *a = (struct bench_args){0};
    return rc;
}
