/* bench.c: parses the options of `siTrain bench` and runs its sections in a child process.
 *
 * The child measures; this process waits. Whatever ends the child, an error, a signal, a crash,
 * this process removes its folders. A signal to this process first ends the child and the child's
 * children. */
#include "bench/bench.h"

#include "cmd/terminal/command.h"
#include "comm/comm.h"
#include "csd/disk/disk_file.h"
#include "data/base/file.h"
#include "data/base/machine.h"
#include "data/base/version.h"
#include "offload/devices/devices.h"
#include "plan/memory.h"
#include "run/folder/settings.h"
#include "run/model_opts.h"
#include "run/sources/masking.h"

#include <dirent.h>
#include <fcntl.h>
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

/* bench network runs without other sections, and has its own defaults. */
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

/* ---- places ---- */

int bench_is_block(const struct bench *b, size_t device)
{
    return b->n_devices && file_is_block(b->devices[device]);
}

char *bench_file(const struct bench *b, size_t device, const char *name)
{
    const char *in = b->n_devices ? b->devices[device] : b->scratch;

    return bench_is_block(b, device) ? strdup(in) : file_path(NULL, "%s/%s", in, name);
}

/* The folders for files: --dir, then for each --device a folder in it, or the block device itself,
 * in which nothing is made. */
struct places {
    size_t           n;
    const char     **path;
    struct file_new *made;
};

/* Whether this folder has the run with this id, or a folder below has. If a run's maker was killed,
 * the run is in a folder of its own there. */
static int holds_run(const char *dir, const char *id, int depth)
{
    DIR           *d = opendir(dir);
    struct dirent *e;
    int            found = 0;

    while (d && !found && (e = readdir(d))) {
        struct runlog *log = NULL;
        char          *own = NULL, *path = NULL;

        if (*e->d_name != '.')
            path = file_path(NULL, "%s/%s", dir, e->d_name);
        if (path && (!strcmp(e->d_name, "run.db") || !strcmp(e->d_name, "run.db.new"))) {
            if (!runlog_open(&log, path, 1, 0, NULL))
                own = settings_get(log, "id");
            found = own && !strcmp(own, id);
        } else if (path && depth) {
            found = holds_run(path, id, depth - 1);
        }
        runlog_close(log);
        free(own);
        free(path);
    }
    file_close_dir(d);
    return found;
}

/* Whether the first bytes of a device are of a run that bench made. */
static int is_own(const char *page, const char *scratch)
{
    struct superblock s;

    return !superblock_read(page, &s) && holds_run(scratch, s.id, 2);
}

int bench_device_ask(const struct bench *b, size_t device, struct err *err)
{
    const char *path = b->n_devices ? b->devices[device] : NULL;
    char        page[SUPERBLOCK_BYTES];
    int         fd, own;

    if (!bench_is_block(b, device))
        return 0;
    if ((fd = file_open_device(path, O_RDONLY)) < 0)
        return err_set(err, fd, "open %s: %s", path, strerror(-fd));
    own = !file_pread(fd, page, sizeof page, 0, path, NULL) && is_own(page, b->scratch);
    close(fd);
    return own ? 0 : devices_empty_check(path, "--device", b->o->train.force_device, err);
}

/* Erases the states of a run that bench made, so that the next user of the drive needs no
 * --force-device. States of any other run stay, even if it came in between. */
static void drive_clear(const char *path, const char *scratch)
{
    char page[SUPERBLOCK_BYTES];
    int  fd;

    if (disk_check_idle(path, NULL) || (fd = file_open_device(path, O_RDWR | O_EXCL)) < 0)
        return;
    if (!file_pread(fd, page, sizeof page, 0, path, NULL) && is_own(page, scratch))
        devices_erase(fd, path, NULL);
    close(fd);
}

void bench_device_clear(const struct bench *b, size_t device)
{
    if (bench_is_block(b, device))
        drive_clear(b->devices[device], b->scratch);
}

static int places_make(struct places *p, struct bench *b, struct err *err)
{
    const struct opt_strings *d = &b->o->train.device;
    int                       rc = 0;

    *p = (struct places){1 + d->n, calloc(1 + d->n, sizeof *p->path),
                         calloc(1 + d->n, sizeof *p->made)};
    if (!p->path || !p->made)
        return err_set(err, -ENOMEM, "out of memory");
    b->devices = d->n ? d->item : NULL;
    b->n_devices = d->n;
    for (size_t i = 0; i < p->n && !rc; i++) {
        const char *dir = i ? d->item[i - 1] : b->o->dir;
        int         block = i && bench_is_block(b, i - 1);
        char       *path = block ? NULL : file_path(err, "%s/.siTrain-bench", dir);

        if (path && (rc = file_new_scratch(&p->made[i], path, err)))
            err_set(err, rc, "make a folder in %s: %s; one that can be written is expected", dir,
                    strerror(-rc));
        rc = path || block ? rc : -ENOMEM;
        free(path);
        p->path[i] = block ? dir : p->made[i].temp;
    }
    b->scratch = p->path[0];
    b->devices = d->n ? p->path + 1 : NULL;
    return rc;
}

static void places_remove(struct places *p)
{
    for (size_t i = p->made ? p->n : 0; i-- > 0;) { // the first has the runs: removed last
        if (i && p->path[i] && !p->made[i].temp)
            drive_clear(p->path[i], p->path[0]);
        file_new_abort(&p->made[i]);
    }
    free(p->made);
    free(p->path);
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

/* Writes the measurements to the file of --json. */
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
static int measure(struct bench *b, struct err *err)
{
    int rc = b->o->only == BENCH_NETWORK ? comm_open(&b->comm, err) : 0;
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

/* Waits for the child. If a signal asks this process to end, ends the child and the child's
 * children. */
static int wait_for(pid_t pid, const sigset_t *watched)
{
    int status = 0, stopped = 0;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        int sig = sigwaitinfo(watched, NULL);
        if (sig < 0 || sig == SIGCHLD)
            continue;
        stopped = 1;
        kill(-pid, SIGKILL);
    }
    if (stopped) {
        fputs("siTrain: bench: stopped; nothing half-made is left\n", stderr);
        return 130;
    }
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    fprintf(stderr, "siTrain: bench: the process that measures was ended by signal %d (%s)\n",
            WTERMSIG(status), strsignal(WTERMSIG(status)));
    return 1;
}

static int measure_apart(struct bench *b)
{
    sigset_t   watched, before;
    struct err err = {0};
    pid_t      pid, parent = getpid();

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
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        sigprocmask(SIG_SETMASK, &before, NULL);
        _exit(measure(b, &err));
    }
    if (pid > 0)
        setpgid(pid, pid); // both processes do it, whichever is first
    int code = pid > 0 ? wait_for(pid, &watched) : 1;
    if (pid < 0)
        perror("siTrain: bench: fork");
    sigprocmask(SIG_SETMASK, &before, NULL);
    return code;
}

static int run(struct opt_line *line, struct err *err)
{
    struct bench_opts *o = line->options;
    struct bench       b = { .o = o };
    struct places      places = { 0 };
    int                code = 0, rc = options_check(&b, line, err);

    rc = rc ? rc : places_make(&places, &b, err);
    if (!rc)
        code = measure_apart(&b);
    places_remove(&places);
    return rc ? rc : code;
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
