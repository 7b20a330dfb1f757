/* bench.c: `siTrain bench`: its options, its sections in their order, and the process that they run
 * in.
 *
 * A child process measures; this one waits. Whatever ends the child, an error, a signal, a crash,
 * the folders it worked in are removed here; a signal to this one ends the child and its own
 * children first. */
#include "cmd/bench/bench.h"

#include "cmd/run/memory.h"
#include "cmd/say/output.h"
#include "cmd/run/model_choice.h"
#include "csd/disk_file.h"
#include "data/base/file.h"
#include "data/base/version.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct opt_row rows[] = {
    { "dir", OPT_STRING, offsetof(struct bench_opts, dir), ".", .arg = "DIR",
      .help = "where files are made, on the disk that is measured; all are removed" },
    { "only", OPT_STRING, offsetof(struct bench_opts, only), .arg = "LIST",
      .help = "these sections: products, memory, kernels, disk, update, topk, steps; what they go "
              "by is measured too; or probe, by which plan says how long a step takes" },
    { "rounds", OPT_UINT, offsetof(struct bench_opts, rounds), "5", .min = 1, .max = 64,
      .help = "of which medians are taken" },
    { "quick", OPT_FLAG, offsetof(struct bench_opts, quick),
      .help = "a small model and few rounds: under 20 seconds" },
    { "json", OPT_STRING, offsetof(struct bench_opts, json), .arg = "FILE",
      .help = "write the figures as JSON, too; - writes them to stdout instead of tables" },
    { 0 }
};
static const struct opt_part parts[] = {
    { "Options", rows, 0 },
    { "Model", model_rows, offsetof(struct bench_opts, model) },
    { "Training", train_rows, offsetof(struct bench_opts, train) },
    { 0 }
};
static const struct opt_default defaults[] = {{"seq", "256"}, {"steps", "4"}, {"clip", "0"}, {0}};

const struct opt_command bench_command = {
    "bench",
    "[--quick] [--only LIST] [--dir DIR] [--json FILE] [plan's options for model and training]",
    "measure this machine, then the program against it",
    "Products, memory, kernels, disk, update path, Top-K and whole steps at the model's own sizes "
    "(GPT-2 124M where none is named), in one run: medians of interleaved repetitions. --steps are "
    "measured for each kind of run. --device names folders or block devices that are measured in "
    "turn; block devices are written over.",
    parts,
    sizeof(struct bench_opts),
    NULL,
    defaults,
};

/* needs: sections whose figures it goes by; bits are places in this table. */
enum { PRODUCTS_BIT = 1, MEMORY_BIT = 2, DISK_BIT = 8, UPDATE_BIT = 16 };

static const struct section {
    const char *name;
    int (*run)(struct bench *b, struct err *err);
    void (*print)(const json_t *report);
    unsigned needs;
} sections[] = {
    {"products", bench_products, bench_products_print, 0},
    {"memory", bench_memory, bench_memory_print, 0},
    {"kernels", bench_kernels, bench_kernels_print, PRODUCTS_BIT | MEMORY_BIT},
    {"disk", bench_disk, bench_disk_print, 0},
    {"update", bench_update, bench_update_print, 0},
    {"topk", bench_topk, bench_topk_print, MEMORY_BIT},
    {"steps", bench_steps, bench_steps_print, PRODUCTS_BIT},
    {"probe", bench_probe, bench_probe_print, 0},
};
// the probe is no part of all
enum { SECTIONS = sizeof sections / sizeof *sections, ALL = SECTIONS - 1 };

/* ---- options ---- */

/* The sections asked for, as bits; 0 with a sentence for another word. */
static unsigned sections_of(const char *only, struct err *err)
{
    unsigned bits = 0;

    if (!only)
        return (1u << ALL) - 1;
    while (*only) {
        size_t n = strcspn(only, ","), i = 0;

        while (i < SECTIONS &&
               (strlen(sections[i].name) != n || strncmp(only, sections[i].name, n)))
            i++;
        if (i == SECTIONS) {
            err_misuse(err,
                       "--only %.*s: products, memory, kernels, disk, update, topk and steps, with "
                       "commas between, are expected",
                       (int)n, only);
            return 0;
        }
        bits |= 1u << i;
        only += n + (only[n] == ',');
    }
    return bits;
}

/* The model where none is named: GPT-2 124M; --quick: one that takes seconds. */
static int default_model(struct bench_opts *o, struct err *err)
{
    struct model_opts *m = &o->model;

    if (m->init || m->model || m->n_layer || m->n_head || m->n_embd)
        return 0;
    if (o->quick) {
        m->n_layer = m->n_head = 4;
        m->n_embd = 256;
        m->vocab = m->vocab ? m->vocab : 8192;
        return 0;
    }
    m->model = strdup("gpt2"); // options own their strings
    return m->model ? 0 : err_set(err, -ENOMEM, "out of memory");
}

/* Options of training that bench sets by itself, or that would leave it nothing to measure. */
static int train_check(const struct bench_opts *o, unsigned asked, struct err *err)
{
    if (o->train.csd)
        return err_misuse(err,
                          "--csd %s: bench runs steps with devices and without by itself; leave it "
                          "out",
                          train_csd_names[o->train.csd]);
    if (!strcmp(train_disk_names[o->train.disk], "null") && (asked & (DISK_BIT | UPDATE_BIT)))
        return err_misuse(err, "--disk null stores nothing: there is no disk to measure; leave it "
                               "out, or name other sections with --only");
    if (o->train.steps > BENCH_STEPS)
        return err_misuse(err, "--steps %llu: at most %d of each kind of run are measured",
                          (unsigned long long)o->train.steps, BENCH_STEPS);
    return 0;
}

static int options_check(struct bench *b, unsigned asked, const struct opt_given *given,
                         struct err *err)
{
    struct bench_opts *o = b->o;
    const char        *tokenizer = NULL;
    int                rc = default_model(o, err);

    if (o->quick && !opt_was_given(&bench_command, given, "rounds"))
        o->rounds = 2;
    if (o->quick && !opt_was_given(&bench_command, given, "steps"))
        o->train.steps = 2;
    if (o->quick && !opt_was_given(&bench_command, given, "seq"))
        o->train.seq = 128;
    if (!rc)
        rc = train_opts_check(&o->train, err);
    if (!rc)
        rc = model_choose(&b->gpt, &tokenizer, &o->model, &o->train, err);
    if (!rc && b->gpt.n_labels)
        rc = err_misuse(err, "--init %s is a classifier: a language model is expected",
                        o->model.init);
    if (!rc)
        rc = train_check(o, asked, err);
    for (size_t i = 0; i < o->train.device.n && !rc; i++) {
        struct stat st;

        if (stat(o->train.device.item[i], &st) || (!S_ISDIR(st.st_mode) && !S_ISBLK(st.st_mode)))
            rc = err_misuse(err, "--device %s: a folder or a block device is expected",
                            o->train.device.item[i]);
        else if (S_ISBLK(st.st_mode) && !o->train.force_device &&
                 disk_probe(o->train.device.item[i], err))
            rc = -EBUSY;
    }
    free((char *)(uintptr_t)tokenizer);
    return rc;
}

/* ---- places ---- */

int bench_is_block(const struct bench *b, size_t device)
{
    struct stat st;

    return b->n_devices && stat(b->devices[device], &st) == 0 && S_ISBLK(st.st_mode);
}

/* Where files are made: in --dir, then for each --device a folder in it, or the block device
 * itself, for which nothing is made. */
struct places { size_t n; const char **path; struct file_new *made; };

static int place_make(struct places *p, size_t i, const char *dir, struct err *err)
{
    char *path;
    int   rc;

    if (asprintf(&path, "%s/.siTrain-bench", dir) < 0)
        return err_set(err, -ENOMEM, "out of memory");
    rc = file_new_scratch(&p->made[i], path, err);
    free(path);
    p->path[i] = p->made[i].temp;
    return rc ? err_set(err, rc, "make a folder in %s: %s; one that can be written is expected",
                        dir, strerror(-rc))
              : 0;
}

static int places_make(struct places *p, struct bench *b, struct err *err)
{
    const struct opt_strings *d = &b->o->train.device;
    int                       rc;

    p->n = 1 + d->n;
    p->path = calloc(p->n, sizeof *p->path);
    p->made = calloc(p->n, sizeof *p->made);
    if (!p->path || !p->made)
        return err_set(err, -ENOMEM, "out of memory");
    rc = place_make(p, 0, b->o->dir, err);
    for (size_t i = 0; i < d->n && !rc; i++) {
        struct stat st;

        if (stat(d->item[i], &st) == 0 && S_ISDIR(st.st_mode))
            rc = place_make(p, 1 + i, d->item[i], err);
        else
            p->path[1 + i] = d->item[i];
    }
    b->scratch = p->path[0];
    b->devices = d->n ? p->path + 1 : NULL;
    b->n_devices = d->n;
    return rc;
}

static void places_remove(struct places *p)
{
    for (size_t i = 0; p->made && i < p->n; i++)
        file_new_abort(&p->made[i]);
    free(p->made);
    free(p->path);
}

/* ---- measuring ---- */

static void machine(struct bench *b)
{
    const struct gpt_config *g = &b->gpt;
    const struct train_opts *o = &b->o->train;
    FILE                    *f = fopen("/proc/cpuinfo", "r");
    char                     line[256], cpu[256] = "unknown";

    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "model name", 10) && strchr(line, ':')) {
            snprintf(cpu, sizeof cpu, "%s", strchr(line, ':') + 2);
            cpu[strcspn(cpu, "\n")] = '\0';
            break;
        }
    if (f)
        fclose(f);
    json_object_set_new(b->report, "version", json_string(SITRAIN_VERSION));
    json_object_set_new(b->report, "machine",
                        json_pack("{s:s, s:I}", "cpu", cpu, "threads", (json_int_t)o->threads));
    json_object_set_new(b->report, "model",
                        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "n_layer",
                                  (json_int_t)g->n_layer, "n_head", (json_int_t)g->n_head, "n_embd",
                                  (json_int_t)g->n_embd, "vocab", (json_int_t)g->vocab,
                                  "parameters", (json_int_t)gpt_total(g), "batch",
                                  (json_int_t)o->batch, "seq", (json_int_t)o->seq, "grad_accum",
                                  (json_int_t)o->grad_accum, "dtype",
                                  o->dtype == DT_BF16 ? "bf16" : "fp32"));
    if (b->print)
        printf("%s, %llu threads; %zu layers, %zu wide, %zu words: %.4g million parameters; %llu x "
               "%llu x %llu tokens a step, %s\n\n",
               cpu, (unsigned long long)o->threads, g->n_layer, g->n_embd, g->vocab,
               (double)gpt_total(g) / 1e6, (unsigned long long)o->grad_accum,
               (unsigned long long)o->batch, (unsigned long long)o->seq,
               o->dtype == DT_BF16 ? "bf16" : "fp32");
}

static int run_sections(struct bench *b, unsigned asked, struct err *err)
{
    unsigned needed = asked;
    int      rc = 0;

    for (size_t i = 0; i < SECTIONS; i++)
        needed |= asked & (1u << i) ? sections[i].needs : 0;
    for (size_t i = 0; i < SECTIONS && !rc; i++) {
        if (!(needed & (1u << i)))
            continue;
        rc = sections[i].run(b, err);
        if (rc || !b->print || !(asked & (1u << i)))
            continue;
        sections[i].print(b->report);
        putchar('\n');
        fflush(stdout);
    }
    return rc;
}

/* What the child does, to its exit code. */
static int measure(struct bench *b, unsigned asked, struct err *err)
{
    const char *to = b->o->json;
    int         rc;

    b->report = json_object();
    b->print = !to || strcmp(to, "-");
    memory_baseline();
    machine(b);
    rc = run_sections(b, asked, err);
    if (!rc && to && b->print)
        rc = json_write(b->report, to, err);
    if (!rc && !b->print) {
        json_dumpf(b->report, stdout, JSON_INDENT(2));
        putchar('\n');
    }
    json_decref(b->report);
    return output_finish(rc ? opt_fail("bench", err) : 0);
}

/* ---- the two processes ---- */

/* Wait for the child, ending it and its children where a signal asks this process to. */
static int wait_for(pid_t pid, const sigset_t *watched)
{
    int status = 0, sig, stopped = 0;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        sig = sigwaitinfo(watched, NULL);
        if (sig < 0 || sig == SIGCHLD)
            continue;
        stopped = 1;
        kill(-pid, SIGKILL);
    }
    if (stopped)
        return 130;
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    fprintf(stderr, "siTrain: bench: the process that measures was ended by signal %d (%s)\n",
            WTERMSIG(status), strsignal(WTERMSIG(status)));
    return 1;
}

static int measure_apart(struct bench *b, unsigned asked)
{
    sigset_t   watched, before;
    struct err err = {0};
    pid_t      pid, parent = getpid();
    int        code;

    sigemptyset(&watched);
    sigaddset(&watched, SIGINT);
    sigaddset(&watched, SIGTERM);
    sigaddset(&watched, SIGHUP);
    sigaddset(&watched, SIGQUIT);
    sigaddset(&watched, SIGCHLD);
    sigprocmask(SIG_BLOCK, &watched, &before);
    // ignored by who started this program, it would take the child's exit code along
    signal(SIGCHLD, SIG_DFL);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        sigprocmask(SIG_SETMASK, &before, NULL);
        _exit(measure(b, asked, &err));
    }
    if (pid > 0)
        setpgid(pid, pid); // both do it: whichever comes first
    code = pid > 0 ? wait_for(pid, &watched) : 1;
    if (pid < 0)
        perror("siTrain: bench: fork");
    sigprocmask(SIG_SETMASK, &before, NULL);
    return code;
}

static int bench(struct bench *b, const struct opt_given *given, int *code, struct err *err)
{
    unsigned      asked = sections_of(b->o->only, err);
    struct places places = { 0 };
    int           rc = asked ? options_check(b, asked, given, err) : -EINVAL;

    if (!rc)
        rc = places_make(&places, b, err);
    if (!rc)
        *code = measure_apart(b, asked);
    places_remove(&places);
    return rc;
}

int cmd_bench(int argc, char **argv)
{
    struct bench_opts o;
    struct bench      b = {.o = &o};
    struct opt_given  given;
    struct err        err = {0};
    int               code = opt_start(&bench_command, argc, argv, &o, &given);

    if (code >= 0)
        return code;
    code = 0;
    if (bench(&b, &given, &code, &err))
        code = opt_fail("bench", &err);
    opt_release(&bench_command, &o);
    return code;
}
