/* probe.c: how long a step will take on this machine, for `siTrain plan`: a child process (`siTrain
 * bench --probe`) measures the parts of a small model's step in a few seconds, and by the design's
 * formula (docs/design.md, A step) they are made those of the whole.
 *
 * The child's model has this one's width, heads, words and rows, as many tokens as a few GFLOP
 * allow, and two layers. Computing is measured on it with devices that answer at once; what moves,
 * without a model, on parameters few enough to be written quickly. Scaled are: a layer's computing
 * by its FLOPs, the head's by tokens, the pass over gradients and the updates by parameters, what
 * else crosses the host link by bytes. */
#include "cmd/bench/bench.h"

#include "data/base/round.h"
#include "kernels/matmul.h"
#include "offload/devices.h"
#include "offload/traffic.h"

#include <libgen.h>
#include <signal.h>
#include <sys/stat.h>

enum { MOST_WIDE = 256, MOST_WORDS = 16384 };             // of what moves
enum { LAYERS = 2, LEAST_TOKENS = 32, TOKENS_STEP = 16 }; // of both

#define MOST_FLOPS 3e10 // of a measured step

/* ---- the section: what the child measures ---- */

/* The medians of a run's steps, under `name`. */
static int part_run(struct bench *b, json_t *section, const char *name, int mode, int fake,
                    json_t **out, struct err *err)
{
    json_t *steps = json_array();
    int     rc = bench_run_make(b, name, mode, fake, 0, err);

    if (!rc)
        rc = bench_run(b, name, fake || mode == RUN_MEM ? BENCH_TRAIN : BENCH_DRIVE_APART,
                       b->o->train.steps, steps, err);
    *out = bench_run_medians(steps);
    json_object_set_new(section, name, *out);
    json_decref(steps);
    return rc;
}

static int probe_run(struct bench *b, json_t *section, struct err *err)
{
    int          mode = b->o->train.mode;
    struct bench small = *b; // of the same precision and rows, with a few million parameters
    double       arithmetic = 0;
    json_t      *row;
    int rc = part_run(b, section, "computing", mode == RUN_MEM ? RUN_SUO : mode, 1, &row, err);

    small.gpt.n_layer = size_min(b->gpt.n_layer, LAYERS);
    small.gpt.vocab = size_min(b->gpt.vocab, MOST_WORDS);
    if (b->gpt.n_embd > MOST_WIDE) {
        small.gpt.n_embd = MOST_WIDE;
        small.gpt.n_head = 4;
    }
    rc = rc ? rc : part_run(&small, section, "moving", mode, 0, &row, err);
    if (!rc && mode != RUN_MEM)
        rc = bench_update_arithmetic(&small, &arithmetic, err);
    bench_put(row, "parameters", (double)gpt_total(&small.gpt));
    bench_put(row, "block_0", (double)gpt_block_size(&small.gpt, 0));
    bench_put(row, "arithmetic", arithmetic);
    return rc;
}

static void probe_print(const json_t *section)
{
    const char *part, *key;
    json_t     *row, *value;

    printf("Parts of a step, in seconds: computing is this model's, moving that of a small one\n");
    json_object_foreach((json_t *)(uintptr_t)section, part, row)
        json_object_foreach(row, key, value)
            printf("  %-10s %-12s %.6g\n", part, key, json_number_value(value));
}

const struct bench_section bench_probe = {"probe", 0, 0, probe_run, probe_print};

/* ---- the child's model ---- */

struct small { struct gpt_config gpt; size_t batch, seq; };

/* FLOPs of one layer for a token in a row of seq. */
static double layer_flops(const struct gpt_config *g, double seq)
{
    double C = (double)g->n_embd;

    return 6 * 12 * C * C + 6 * C * seq;
}

static struct small small_of(const struct session *s)
{
    struct small       small = {.gpt = s->gpt, .batch = 1, .seq = s->o.seq};
    struct gpt_config *g = &small.gpt;

    g->n_layer = size_min(g->n_layer, LAYERS);
    g->n_labels = 0;
    double token = (double)g->n_layer * layer_flops(g, (double)s->o.seq) +
                   6 * (double)g->vocab * (double)g->n_embd;
    double most = MOST_FLOPS / token;

    if (most >= (double)s->o.seq)
        small.batch = size_min(s->o.batch, (size_t)(most / (double)s->o.seq));
    else
        small.seq = size_min(s->o.seq, most < LEAST_TOKENS
                                           ? LEAST_TOKENS
                                           : (size_t)most / TOKENS_STEP * TOKENS_STEP);
    g->n_positions = small.seq;
    return small;
}

/* ---- the child ---- */

/* Where a device's file is or will be. */
static int arg_device(struct bench_args *a, const char *path, struct err *err)
{
    char       *copy = strdup(path);
    struct stat st;
    int         there = !stat(path, &st);

    bench_arg(a, "--device=", copy && !(there && S_ISDIR(st.st_mode)) ? dirname(copy) : path);
    free(copy);
    return there && S_ISBLK(st.st_mode)
               ? err_set(err, -ENOTSUP,
                         "the block device %s is not written for a plan; siTrain bench --device "
                         "%s measures it, and writes over it", path, path)
               : 0;
}

static void arg_sizes(struct bench_args *a, const char *name, const struct opt_sizes *sizes)
{
    const struct opt_row row = { .type = OPT_SIZES };
    char                *text = opt_value_text(&row, sizes);

    if (!text)
        a->failed = 1;
    else if (*text)
        bench_arg(a, name, text);
    free(text);
}

static void args_make(struct bench_args *a, const struct session *s, const struct small *small,
                      const char *dir)
{
    const struct train_opts *o = &s->o;

    bench_words(a, BENCH_SELF " bench --probe --json=- --rounds=2 --steps=3");
    bench_arg(a, "--dir=", dir);
    bench_args_model(a, &small->gpt, small->batch, small->seq, o->threads);
    arg_sizes(a, "--csd-read-bw=", &o->csd_read_bw);
    arg_sizes(a, "--csd-write-bw=", &o->csd_write_bw);
    bench_arg(a, "--topology=", o->topology);
    bench_words(a, "--csd-mem=%" PRIu64 " --link-bw=%" PRIu64 " --csd-latency=%.9g --mode=%s "
                "--disk=%s --dtype=%s --blas=%s --optimizer=%s --durability=%s --compress=%.9g",
                o->csd_mem, o->link_bw, o->csd_latency, train_mode_name((size_t)o->mode),
                disk_name((size_t)o->disk), dtype_name((size_t)o->dtype),
                matmul_engine_name((enum matmul_engine)o->blas),
                optim_name((enum optim_kind)o->optimizer),
                o->durability == TRAIN_DURABLE_STEP ? "step" : "none", o->compress);
    if (!o->device.n)
        bench_words(a, "--devices=%" PRIu64, o->devices);
    // the child's devices are real, but nothing of theirs is used
    if (o->device_in_ram || devices_fake(&s->run))
        bench_words(a, "--device-in-ram");
}

/* The child would not say why it does not work in a place that the run would be refused in, too. */
static int places_check(const struct session *s, const char *dir, struct err *err)
{
    const struct train_opts *o = &s->o;

    if (o->mode == RUN_MEM || devices_fake(&s->run))
        return 0;
    if (!o->device.n)
        return devices_place_check(dir, 0, o->device_in_ram, err);
    int rc = 0;
    for (size_t i = 0; i < o->device.n && !rc; i++)
        rc = devices_place_check(o->device.item[i], 1, o->device_in_ram, err);
    return rc;
}

/* ---- the whole from the parts ---- */

static double host_bytes(const struct session *s)
{
    struct link_meter m;
    double            sum = 0;

    traffic_computed(&m, &s->run);
    for (int k = 0; k < LINK_CLASSES; k++)
        for (int d = 0; d < LINK_DIRS; d++)
            if (k != CLASS_STATES &&
                !(s->run.mode == RUN_BASE && k == CLASS_GRADIENT && d == LINK_READ) &&
                !(k == CLASS_WIRE && d == LINK_WRITE))
                sum += (double)m.bytes[LINK_HOST][k][d];
    return sum;
}

static void scale(struct probe *p, const json_t *measured, const struct session *s,
                  const struct small *of, const struct budget *plan)
{
    const json_t         *c = json_object_get(measured, "computing");
    const json_t         *m = json_object_get(measured, "moving");
    struct bench_figures *f = &p->parts;
    size_t n = s->gpt.n_layer, again = plan->record_buffers ? 0 : n - plan->kept; // recomputed
    double tokens = (double)(s->o.batch * s->o.seq * s->o.grad_accum) /
                    (double)(of->batch * of->seq);
    double layers = tokens * (double)n * layer_flops(&s->gpt, (double)s->o.seq) /
                    ((double)of->gpt.n_layer * layer_flops(&of->gpt, (double)of->seq));
    double params = (double)gpt_total(&s->gpt), small = json_num(m, "parameters");
    double head = s->gpt.n_labels ? 0 : tokens, block_0 = (double)gpt_block_size(&s->gpt, 0);
    double moved = json_num(m, "moved");

    p->layers = of->gpt.n_layer;
    p->tokens = of->batch * of->seq;
    f->F = layers * json_num(c, "forward");
    f->B = layers * json_num(c, "backward") + (double)again / (double)n * f->F +
           head * json_num(c, "loss") +
           json_num(c, "gradient") * params / (double)gpt_total(&of->gpt);
    f->h = head * json_num(c, "loss") + layers * json_num(c, "backward") / (double)n;
    f->U = json_num(m, "update") * params / small;
    f->u0 = f->U * block_0 / params;
    f->w0 = json_num(m, "w0") * block_0 / json_num(m, "block_0");
    f->W = moved > 0 ? json_num(m, "moving") * host_bytes(s) / moved : 0;
    f->A = json_num(m, "arithmetic") * params / (double)s->o.threads;
    if (csd_at((size_t)s->o.csd)->flags & CSD_FAKE) // devices that answer at once
        f->U = f->u0 = f->w0 = f->W = f->A = 0;
    p->step = s->o.mode == RUN_MEM ? f->F + f->B + f->U : bench_bound(f, s->o.speculate);
}

int probe_step(struct probe *out, const struct session *s, const struct budget *plan,
               const char *dir, struct err *err)
{
    struct bench_args a = {0};
    struct small      small = small_of(s);
    sigset_t          ends, before;
    json_t           *report = NULL;
    int               rc = places_check(s, dir, err);

    args_make(&a, s, &small, dir);
    for (size_t i = 0; i < s->o.device.n && s->o.mode != RUN_MEM && !rc; i++)
        rc = arg_device(&a, s->o.device.item[i], err);
    // Ctrl-C ends the child, which removes its files; this process ends when it has
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, &before);
    rc = rc ? rc : bench_child(&report, &a, NULL, err);
    sigprocmask(SIG_SETMASK, &before, NULL);
    free(a.words);
    if (!rc)
        scale(out, json_object_get(report, "probe"), s, &small, plan);
    if (!rc && !(out->step > 0))
        rc = err_set(err, -EIO, "the probe measured nothing");
    json_decref(report);
    return rc;
}
