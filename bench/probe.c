/* probe.c: measures this machine for a `siTrain plan` without --machine. A child process (`siTrain
 * bench --probe`) measures for some seconds what a prediction of this model needs, and prints it as
 * lines of a machine_file. The child ends with its parent. */
#include "bench/bench.h"

#include "kernels/matmul.h"
#include "offload/devices/devices.h"
#include "plan/machine_file.h"
#include "run/loop/training.h"

#include <argz.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- the child's command line ---- */

/* A vector of argz, malloced. */
struct args { char *words; size_t bytes; int failed; };

/* Adds one word, which may have blanks. */
static void word(struct args *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void word(struct args *a, const char *fmt, ...)
{
    va_list ap;
    char   *text = NULL;

    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0 || argz_add(&a->words, &a->bytes, text))
        a->failed = 1;
    va_end(ap);
    free(text);
}

/* Adds the options for the chosen model, with so many words, and its batches. */
static void words_of_model(struct args *a, const struct model_opts *model, size_t vocab,
                           const struct train_opts *o)
{
    const struct { const char *name; uint64_t size; } sizes[] = {
        { "vocab", model->init ? 0 : vocab }, { "n-layer", model->n_layer },
        { "n-head", model->n_head }, { "n-embd", model->n_embd },
        { "n-kv-head", model->n_kv_head }, { "head-dim", model->head_dim },
        { "n-inner", model->n_inner }, { "batch", o->batch }, { "seq", o->seq },
        { "threads", o->threads }, { "csd-mem", o->csd_mem } };

    if (model->init)
        word(a, "--init=%s", model->init);
    if (model->base)
        word(a, "--base=%s", model->base);
    if (model->model)
        word(a, "--model=%s", model->model);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].size)
            word(a, "--%s=%" PRIu64, sizes[i].name, sizes[i].size);
}

/* Adds --device with the folder or drive where a device's file is or will be. */
static int word_of_device(struct args *a, const char *path, struct err *err)
{
    char       *copy = strdup(path);
    struct stat st;
    int         there = !stat(path, &st);

    word(a, "--device=%s", copy && !(there && S_ISDIR(st.st_mode)) ? dirname(copy) : path);
    free(copy);
    return there && S_ISBLK(st.st_mode)
               ? err_set(err, -ENOTSUP,
                         "the block device %s is not written for a plan; siTrain bench --device "
                         "%s measures it, and writes over it", path, path)
               : 0;
}

/* Adds the options of the probe. Modelled links are left out: predictions compute with them. */
static void words_of_probe(struct args *a, const struct session *s, const struct model_opts *model,
                           const char *dir)
{
    const struct train_opts *o = &s->o;
    int real = !(disk_at((size_t)o->disk)->flags & DISK_FAKE);

    for (const char *const *w = (const char *const[]){ "siTrain", "bench", "--probe", "--json=-",
                                                       NULL }; *w; w++)
        word(a, "%s", *w);
    word(a, "--dir=%s", dir);
    words_of_model(a, model, s->config.vocab, o);
    word(a, "--mode=%s", train_mode_name((size_t)o->mode));
    word(a, "--disk=%s", disk_name(real ? (size_t)o->disk : 0));
    word(a, "--dtype=%s", dtype_name((size_t)o->dtype));
    word(a, "--blas=%s", matmul_engine_name((enum matmul_engine)o->blas));
    word(a, "--optimizer=%s", optim_name((enum optim_kind)o->optimizer));
    word(a, "--dropout=%g", (double)training_options(s).model.dropout.attn);
    // nothing of the child's devices is used
    if (o->device_in_ram || devices_fake(&s->run))
        word(a, "--device-in-ram");
}

/* Checks places that the run would refuse as well: the child's message would not say why. */
static int places_check(const struct session *s, const char *dir, struct err *err)
{
    const struct train_opts *o = &s->o;

    if (o->mode == RUN_MEM || devices_fake(&s->run))
        return 0;
    if (!o->device.n)
        return devices_place_check(dir, NULL, o->device_in_ram, err);
    int rc = 0;
    for (size_t i = 0; i < o->device.n && !rc; i++)
        rc = devices_place_check(o->device.item[i], "--device", o->device_in_ram, err);
    return rc;
}

/* ---- the child ---- */

/* Turns the child into bench, with its stdout and stderr in these files. Does not return. */
static void become(const struct args *a, const int files[2])
{
    char **argv = calloc(argz_count(a->words, a->bytes) + 1, sizeof *argv);

    if (!argv)
        _exit(1);
    argz_extract(a->words, a->bytes, argv);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(open("/dev/null", O_RDWR | O_CLOEXEC), STDIN_FILENO);
    dup2(files[0], STDOUT_FILENO);
    dup2(files[1], STDERR_FILENO);
    execv("/proc/self/exe", argv);
    dprintf(STDERR_FILENO, "/proc is not there to start this program from\n");
    _exit(1);
}

/* All text in a memory file, malloced. */
static char *text_of(int fd)
{
    struct stat st = {0};
    char       *text = fstat(fd, &st) ? NULL : calloc(1, (size_t)st.st_size + 1);

    if (text && pread(fd, text, (size_t)st.st_size, 0) < 0)
        *text = '\0';
    return text;
}

/* Says why there are no figures: the child's last line, if it printed any. */
static int child_fail(char *said, struct err *err)
{
    for (size_t n = said ? strlen(said) : 0; n > 0 && said[n - 1] == '\n'; n--)
        said[n - 1] = '\0';
    char *line = said ? strrchr(said, '\n') : NULL;
    line = line ? line + 1 : said;
    return err_set(err, -EIO, "%s", line && *line ? line : "siTrain bench ended without figures");
}

/* Waits for the child and returns its exit status, or 0 if this program's starter ignores children.
 * Tells the watch that it goes on, but not how far it is. */
static int wait_for_child(pid_t pid, const struct watch *watch)
{
    const struct timespec pause = {.tv_nsec = 100000000};
    pid_t                 ended;
    struct err            unheard;
    int                   status = 0;

    while ((ended = waitpid(pid, &status, watch ? WNOHANG : 0)) != pid) {
        if (ended < 0 && errno != EINTR)
            return 0;
        if (watch && !ended) {
            nanosleep(&pause, NULL);
            watch_look(watch, 0, 0, &unheard);
        }
    }
    return status;
}

/* Runs a child with this command line, and reads what it prints as JSON. */
static int child_run(json_t **out, const struct args *a, const struct watch *watch,
                     struct err *err)
{
    int   files[2] = {memfd_create("out", MFD_CLOEXEC), memfd_create("err", MFD_CLOEXEC)}, rc;
    pid_t pid = a->failed || files[0] < 0 || files[1] < 0 ? -1 : fork();

    if (pid == 0)
        become(a, files);
    if (pid < 0) {
        rc = err_set(err, -EAGAIN, "start siTrain bench: no process could be made");
    } else {
        int   status = wait_for_child(pid, watch);
        char *text = text_of(files[0]), *said = text_of(files[1]);

        rc = status || !text || *text != '{'
                 ? child_fail(said, err)
                 : json_parse(out, text, strlen(text), "siTrain bench", err);
        free(text);
        free(said);
    }
    close(files[0]);
    close(files[1]);
    return rc;
}

/* ---- its output ---- */

static int lines_take(struct machine_file *m, const json_t *lines, struct err *err)
{
    const json_t *line;
    size_t        i;
    int           rc = 0;

    *m = (struct machine_file){ 0 };
    json_array_foreach(lines, i, line)
        rc = rc ? rc : machine_file_take(m, json_string_value(json_array_get(line, 0)),
                                         json_string_value(json_array_get(line, 1)), err);
    return rc ? rc : machine_file_check(m, "the probe", err);
}

int probe_machine(struct machine_file *out, const struct session *s,
                  const struct model_opts *model, const char *dir, const struct watch *watch,
                  struct err *err)
{
    struct args a = {0};
    sigset_t    ends, before;
    json_t     *report = NULL;
    int         rc = places_check(s, dir, err);

    words_of_probe(&a, s, model, dir);
    for (size_t i = 0; i < s->o.device.n && s->o.mode != RUN_MEM && !rc; i++)
        rc = word_of_device(&a, s->o.device.item[i], err);
    // Ctrl-C ends the child, which removes its files; then this process ends
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, &before);
    rc = rc ? rc : child_run(&report, &a, watch, err);
    sigprocmask(SIG_SETMASK, &before, NULL);
    free(a.words);
    rc = rc ? rc : lines_take(out, json_object_get(report, "machine_file"), err);
    json_decref(report);
    return rc;
}
