/* bench.c: parses the options of `siTrain bench` and runs its sections in a child process.
 *
 * The child measures; this process waits, and removes the folders of bench_places.c whatever ends
 * the child: an error, a signal, a crash. */
#include "bench/bench.h"

#include "cmd/terminal/command.h"
#include "comm/comm.h"
#include "data/base/machine.h"
#include "data/base/version.h"
#include "offload/devices/devices.h"
#include "plan/memory.h"
#include "run/sources/masking.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The sections in the order of their bits. */
static const struct bench_section *const sections[] = {
    &bench_products, &bench_memory, &bench_kernels, &bench_disk,
    &bench_steps, &bench_save, &bench_network};
enum { SECTIONS = sizeof sections / sizeof *sections };

/* `save` and `network` are not part of all: other options ask for them. */
static const char *section_word(size_t i)
{
    return 1u << i < BENCH_SAVE ? sections[i]->name : NULL;
}

#define AT(field) offsetof(struct bench_opts, field)

static const struct opt_row rows[] = {
    { "WHAT", OPT_ARG, AT(what), "machine",
      .help = "Benchmark to run\n"
              "machine: this machine, and the program against it\n"
              "network: transfers between the processes that mpirun started" },
    { "dir", OPT_STRING, AT(dir), ".", .arg = "DIR",
      .help = "Folder for test files, on the disk to measure. All are removed." },
    { "only", OPT_SET, AT(only), .words = section_word,
      .help = "Sections to run, comma-separated. Sections that they depend on run too." },
    { "save", OPT_STRING, AT(save), .arg = "FILE",
      .help = "File for plan --machine. Only such a file is replaced. Without --only, no other "
              "section is measured." },
    { "probe", OPT_FLAG, AT(probe),
      .help = "Measure only the inputs of this model's prediction, as plan does" },
    { "rounds", OPT_UINT, AT(rounds), "5", .min = 1, .max = 64,
      .help = "Number of rounds whose median is taken, 1 to 64" },
    { "quick", OPT_FLAG, AT(quick), .help = "Use a small model and few rounds: under 20 seconds" },
    { "json", OPT_STRING, AT(json), .arg = "FILE",
      .help = "File for the results as JSON (-: stdout, instead of tables). Only such a file is "
              "replaced." },
    { "layer-us", OPT_UINT, AT(layer_us), "0", .max = 60000000,
      .help = "Microseconds that a layer's forward waits, for network; backward waits twice as "
              "long. If above 0, --steps steps of the model are also driven, with these waits "
              "and without computing, on devices that answer at once. The waits apply to each of "
              "a rank's --grad-accum micro-batches." },
    { 0 }
};
static const struct opt_part parts[] = {
    { "Options", rows, 0 },
    { "Model", model_rows, AT(model) },
    { "Training", train_rows, AT(train) },
    { 0 }
};
static const struct opt_default defaults[] = {
    { "seq", "256" }, { "steps", "4" }, { "clip", "0" }, { 0 }
};

/* ---- options ---- */

/* The default model: GPT-2 124M, or with --quick one that takes seconds. */
static int default_model(struct bench_opts *o, struct err *err)
{
    struct model_opts *m = &o->model;

    if (m->init || m->model || model_has_sizes(m))
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

static int network_options(struct bench_opts *o, struct opt_line *line, struct err *err)
{
    int model = o->model.init || o->model.model || model_has_sizes(&o->model), rc = 0;

    if (comm_started() < 2 && !o->layer_us)
        return err_misuse(err, "bench network is between ranks, and this is one process: "
                               "mpirun -n 2 siTrain bench network");
    if (o->only || o->probe || o->save || o->quick || o->train.device.n)
        return err_misuse(err, "bench network is measured alone, on devices that it makes in --dir:"
                               " leave out --only, --probe, --save, --quick and --device");
    o->only = BENCH_NETWORK;
    for (const struct opt_default *d = bench_network_defaults; d->row && !rc; d++) {
        int of_model = !strncmp(d->row, "n-", 2) || !strcmp(d->row, "vocab");

        if (!opt_given(line, d->row) && !(of_model && model))
            rc = opt_set(line, d->row, d->text, err);
    }
    return rc;
}

static int what_check(struct bench_opts *o, struct opt_line *line, struct err *err)
{
    int network = !strcmp(o->what, bench_network.name);

    if (!network && strcmp(o->what, "machine"))
        return err_misuse(err, "%s: expected machine or network", o->what);
    if (network)
        return network_options(o, line, err);
    if (comm_started() > 1)
        return err_misuse(err, "%zu processes were started together: bench network alone is "
                               "measured by several", comm_started());
    return o->layer_us ? err_misuse(err, "--layer-us is for bench network") : 0;
}

/* Refuses options of training that bench sets itself, or that would leave nothing to measure. */
static int train_check(const struct bench_opts *o, struct err *err)
{
    if (o->train.csd)
        return err_misuse(err, "--csd %s: bench runs steps with devices and without by itself; "
                               "leave it out", csd_name((size_t)o->train.csd));
    if (disk_at((size_t)o->train.disk)->flags & DISK_FAKE &&
        o->only & (BENCH_DISK | BENCH_SAVE))
        return err_misuse(err, "--disk null stores nothing: there is no disk to measure; leave it "
                               "out, or name other sections with --only");
    if (o->train.steps > BENCH_MOST_STEPS)
        return err_misuse(err, "--steps %llu: at most %d of each kind of run are measured",
                          (unsigned long long)o->train.steps, BENCH_MOST_STEPS);
    return 0;
}

int bench_output(const struct bench_opts *o, enum output_kind kind, const char *text,
                 struct err *err)
{
    const char *json = o->json && strcmp(o->json, "-") ? o->json : NULL;
    int         figures = kind == OUTPUT_FIGURES;
    const char *path = figures ? json : o->save, // inputs and other output, which must stay
        *const inputs[] = { o->model.init, o->train.topology, figures ? o->save : json };

    const struct output file = { path, kind, inputs, 3 };

    return !path ? 0 : text ? output_put(&file, text, strlen(text), err)
                            : output_check(&file, err);
}

static int options_check(struct bench *b, struct opt_line *line, struct err *err)
{
    struct bench_opts *o = b->o;
    const char        *tokenizer = NULL;
    int                rc = what_check(o, line, err);

    rc = rc ? rc : default_model(o, err);
    if (rc)
        return rc;

    if (o->probe && o->only)
        return err_misuse(err, "--probe and --only both say what is measured; give one of them");
    if (o->probe || o->save)
        o->only |= BENCH_SAVE;
    if (!o->only)
        o->only = BENCH_SAVE - 1;
    b->seconds = o->quick ? 0.004 : 0.02;
    if (o->quick && !opt_given(line, "rounds"))
        o->rounds = 2;
    if (o->quick && !opt_given(line, "steps"))
        o->train.steps = 2;
    if (o->quick && !opt_given(line, "seq"))
        o->train.seq = 128;
    rc = rc ? rc : train_opts_check(&o->train, err);
    rc = rc ? rc : model_choose(&b->config, &tokenizer, &o->model, &o->train, err);
    b->config = lora_base(&b->config); // an adapter's: its base is measured
    if (o->probe) // layers do not depend on the head
        b->config.n_labels = 0;
    else if (!rc && arch_classifies(&b->config))
        rc = err_misuse(err, "--init %s is a classifier: a language model is expected",
                        o->model.init);
    rc = rc ? rc : masking_opts_check(line, &o->train.mask, &b->config, err);
    rc = rc ? rc : train_check(o, err);
    rc = rc ? rc : bench_output(o, OUTPUT_FIGURES, NULL, err);
    rc = rc ? rc : bench_output(o, OUTPUT_MACHINE, NULL, err);
    for (size_t i = 0; i < o->train.device.n && !rc; i++) {
        const char *device = o->train.device.item[i];
        struct stat st;

        if (stat(device, &st))
            rc = err_name(err, errno, "--device %s: %s; a folder or a block device is expected",
                          device, strerror(errno));
        else if (!S_ISDIR(st.st_mode) && !S_ISBLK(st.st_mode))
            rc = err_misuse(err, "--device %s: a folder or a block device is expected", device);
        else
            rc = devices_free_check(device, "--device", o->train.force_device, err);
    }
    free((char *)(uintptr_t)tokenizer);
    return rc;
}

/* ---- measuring ---- */

static void machine(struct bench *b)
{
    const struct model_config *g = &b->config;
    const struct train_opts *o = &b->o->train;
    char                     name[256];
    const char *dtype = dtype_name((size_t)o->dtype), *cpu = machine_cpu(name, sizeof name);

    size_t windowed = 0;

    for (size_t layer = 1; layer <= g->n_layer; layer++)
        windowed += arch_window(g, layer) > 0;
    b->report = json_pack(
        "{s:s, s:s, s:{s:s, s:I}, s:{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:I, s:I, "
        "s:I, s:I, s:I, s:I, s:f}}", "about", "siTrain bench", // output.c knows the file by this
        "version", SITRAIN_VERSION, "machine", "cpu", cpu, "threads", (json_int_t)o->threads,
        "model", "n_layer", (json_int_t)g->n_layer, "n_head", (json_int_t)g->n_head, "n_embd",
        (json_int_t)g->n_embd, "vocab", (json_int_t)g->vocab, "parameters",
        (json_int_t)arch_total(g), "batch", (json_int_t)o->batch, "seq", (json_int_t)o->seq,
        "grad_accum", (json_int_t)o->grad_accum, "dtype", dtype, "layers", g->arch->passes,
        "windowed_layers", (json_int_t)windowed, "n_kv_head", (json_int_t)g->n_kv_head, "qk_norm",
        (json_int_t)g->qk_norm, "qkv_bias", (json_int_t)g->qkv_bias, "pieces",
        (json_int_t)arch_pieces(g), "blocks", (json_int_t)arch_blocks(g), "asked",
        train_opts_asked(o, g));
    if (!b->print || b->comm) // no model is moved between ranks
        return;
    printf("%s, %llu threads; %zu layers, %zu wide, %zu words: %.4g million parameters; ", cpu,
           (unsigned long long)o->threads, g->n_layer, g->n_embd, g->vocab,
           (double)arch_total(g) / 1e6);
    printf("%" PRIu64 " x %" PRIu64 " x %" PRIu64 " tokens a step, %s\n\n", o->grad_accum, o->batch,
           o->seq, dtype);
}

static int run_sections(struct bench *b, struct err *err)
{
    uint64_t asked = b->o->only, needed = asked;
    int      rc = 0;

    for (size_t i = 0; i < SECTIONS; i++)
        needed |= asked >> i & 1 ? sections[i]->needs : 0;
    for (size_t i = 0; i < SECTIONS && !rc; i++) {
        const struct bench_section *s = sections[i];
        json_t                     *figures = s->is_rows ? json_array() : json_object();

        if (needed >> i & 1) {
            json_object_set(b->report, s->name, figures);
            rc = s->run(b, figures, err);
        }
        if (!rc && b->print && asked >> i & 1) {
            s->print(figures);
            putchar('\n');
            fflush(stdout);
        }
        json_decref(figures);
    }
    return rc;
}

static int report_write(const struct bench *b, struct err *err)
{
    const struct bench_opts *o = b->o;
    int                      rc = 0;

    if (o->json && b->print) {
        char *text = json_written(b->report, JSON_INDENT(2));

        rc = text ? bench_output(o, OUTPUT_FIGURES, text, err)
                  : err_set(err, -ENOMEM, "no memory to write %s as JSON", o->json);
        free(text);
    }
    if (!rc && !b->print) {
        json_dumpf(b->report, stdout, JSON_INDENT(2));
        putchar('\n');
    }
    return rc;
}

/* What the child does. Returns its exit code. A rank that fails ends all ranks: the others would
 * wait for it forever. */
static int measure(struct bench *b, void *unused)
{
    struct err why = { 0 }, *err = &why;
    int        rc = b->o->only == BENCH_NETWORK ? comm_open(&b->comm, err) : 0;
    (void)unused;
    int speaks = !b->comm || b->comm->rank == 0;

    b->print = speaks && (!b->o->json || strcmp(b->o->json, "-"));
    memory_baseline();
    if (!rc) {
        machine(b);
        rc = run_sections(b, err);
    }
    if (!rc && speaks)
        rc = report_write(b, err);
    json_decref(b->report);
    int code = command_finish(rc ? command_failed("bench", err) : 0);
    if (code && b->comm)
        comm_abort(b->comm, code);
    comm_close(b->comm);
    return code;
}

/* ---- the two processes ---- */

/* Waits for the child. A signal to this process ends the child and the child's children. */
static int wait_for(pid_t pid, const sigset_t *watched, const struct watch *watch, struct err *err)
{
    const struct timespec pause = { .tv_nsec = 100000000 };
    struct err            unheard;
    int                   status = 0, stopped = 0;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        int sig = sigtimedwait(watched, NULL, &pause);

        watch_look(watch, 0, 0, &unheard); // it is not said how far it is
        if (sig < 0 || sig == SIGCHLD)
            continue;
        stopped = 1;
        kill(-pid, SIGKILL);
    }
    if (stopped)
        return err_stopped(err, "stopped; nothing half-made is left");
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    return err_set(err, -EIO, "the process that measures was ended by signal %d (%s)",
                   WTERMSIG(status), strsignal(WTERMSIG(status)));
}

int bench_apart(struct bench *b, int (*measures)(struct bench *b, void *ctx), void *ctx,
                const struct watch *watch, struct err *err)
{
    sigset_t watched, before;
    pid_t    pid, parent = getpid();
    int      rc;

    sigemptyset(&watched);
    for (const int *s = (const int[]){SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD, 0}; *s; s++)
        sigaddset(&watched, *s);
    sigprocmask(SIG_BLOCK, &watched, &before);
    // if our starter ignored it, we would not get the child's exit code
    signal(SIGCHLD, SIG_DFL);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        signal(SIGTTOU, SIG_IGN); // it writes from the background, where `stty tostop` stops others
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        sigprocmask(SIG_SETMASK, &before, NULL);
        _exit(measures(b, ctx));
    }
    if (pid > 0) {
        setpgid(pid, pid); // both processes do it, whichever is first
        rc = wait_for(pid, &watched, watch, err);
    } else {
        rc = err_set(err, -errno, "start a process that measures: %s", strerror(errno));
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static int run(struct opt_line *line, struct err *err)
{
    struct bench_opts  *o = line->options;
    struct bench        b = { .o = o };
    struct bench_places places = { 0 };
    int                 rc = options_check(&b, line, err);

    rc = rc ? rc : bench_places_make(&places, &b, err);
    rc = rc ? rc : bench_apart(&b, measure, NULL, NULL, err);
    bench_places_remove(&places);
    return rc;
}

const struct opt_command bench_command = {
    .name = "bench",
    .usage = "[machine|network] [--quick] [--only LIST] [--dir DIR] [--json FILE] "
             "[plan's options for model and training]",
    .summary = "measure this machine, then the program against it",
    .text = "Measures products, memory, kernels, disk and whole steps at the model's own sizes "
            "(GPT-2 124M by default) in one run. Results are medians of interleaved repetitions. "
            "--steps steps are measured for each kind of run. --device names folders or block "
            "devices that are measured in turn; block devices are overwritten.",
    .parts = parts,
    .size = sizeof(struct bench_opts),
    .killed = 1, .by_ranks = 1, .run = run,
    .defaults = defaults,
    .examples = { "siTrain bench --quick",
                  "siTrain bench --only disk --dir /mnt/a" },
};
