/* probe.c: an estimate by the design's formula (docs/design.md, A step) from what a child process
 * measures. The child's model has this one's width, heads, words and rows, as many tokens as a few
 * GFLOP allow, and two layers. Scaled are: a layer's computing by its FLOPs, the head's by tokens,
 * the pass over gradients and the updates by parameters, what else crosses the host link by bytes.
 */
#include "cmd/bench/probe.h"

#include "data/base/round.h"
#include "kernels/matmul.h"
#include "offload/devices.h"
#include "offload/traffic.h"

#include <errno.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LAYERS = 2, LEAST_TOKENS = 32, TOKENS_STEP = 16, MOST_ARGS = 48 };

#define MOST_FLOPS 3e10 // of a measured step

/* ---- what is measured ---- */

/* FLOPs of one layer for a token in a row of seq. */
static double layer_flops(const struct gpt_config *g, double seq)
{
    double C = (double)g->n_embd;

    return 6 * 12 * C * C + 6 * C * seq;
}

/* The model to measure in *g, and its rows. */
static void small_of(struct gpt_config *g, size_t *batch, size_t *seq, const struct session *s)
{
    double token, most;

    *g = s->gpt;
    g->n_layer = size_min(g->n_layer, LAYERS);
    g->n_labels = 0;
    token = (double)g->n_layer * layer_flops(g, (double)s->o.seq) +
            6 * (double)g->vocab * (double)g->n_embd;
    most = MOST_FLOPS / token;
    *seq = s->o.seq;
    *batch = 1;
    if (most >= (double)s->o.seq)
        *batch = size_min(s->o.batch, (size_t)(most / (double)s->o.seq));
    else
        *seq = size_min(*seq, most < LEAST_TOKENS ? LEAST_TOKENS
                                                 : (size_t)most / TOKENS_STEP * TOKENS_STEP);
    g->n_positions = *seq;
}

/* ---- the child ---- */

struct args { char *v[MOST_ARGS + 1]; size_t n; int rc; struct err *err; };

/* value NULL: a flag. */
static void arg_add(struct args *a, const char *name, const char *value)
{
    if (a->rc)
        return;
    if (a->n == MOST_ARGS ||
        asprintf(&a->v[a->n], "--%s%s%s", name, value ? "=" : "", value ? value : "") < 0)
        a->rc = err_set(a->err, -ENOMEM, "too many devices for a probe, or out of memory");
    else
        a->n++;
}

static void arg_number(struct args *a, const char *name, uint64_t n)
{
    char text[32];

    snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    arg_add(a, name, text);
}

/* Where a device's file is or will be; a block device is not written for a plan. */
static void arg_device(struct args *a, const char *path)
{
    char       *copy = strdup(path);
    struct stat st;

    if (!copy)
        a->rc = err_set(a->err, -ENOMEM, "out of memory");
    else if (!stat(path, &st) && S_ISBLK(st.st_mode))
        a->rc = err_set(a->err, -ENOTSUP,
                        "the block device %s is not written for a plan; siTrain bench --device %s "
                        "measures it, and writes over it",
                        path, path);
    else
        arg_add(a, "device", !stat(path, &st) && S_ISDIR(st.st_mode) ? path : dirname(copy));
    free(copy);
}

static void args_make(struct args *a, const struct session *s, const struct gpt_config *g,
                      size_t batch, size_t seq, const char *dir)
{
    const struct train_opts *o = &s->o;
    char                     ratio[32];

    arg_add(a, "probe", NULL);
    arg_add(a, "json", "-");
    arg_add(a, "dir", dir);
    arg_number(a, "n-layer", g->n_layer);
    arg_number(a, "n-head", g->n_head);
    arg_number(a, "n-embd", g->n_embd);
    arg_number(a, "vocab", g->vocab);
    arg_number(a, "batch", batch);
    arg_number(a, "seq", seq);
    arg_number(a, "rounds", 2);
    arg_number(a, "steps", 3);
    arg_number(a, "threads", o->threads);
    arg_number(a, "csd-mem", o->csd_mem);
    arg_number(a, "link-bw", o->link_bw);
    arg_number(a, "csd-read-bw", o->csd_read_bw);
    arg_number(a, "csd-write-bw", o->csd_write_bw);
    arg_add(a, "mode", train_mode_name((size_t)o->mode));
    arg_add(a, "disk", disk_name((size_t)o->disk));
    arg_add(a, "dtype", dtype_name((size_t)o->dtype));
    arg_add(a, "blas", matmul_engine_name((size_t)o->blas));
    arg_add(a, "optimizer", optim_name((size_t)o->optimizer));
    arg_add(a, "durability", o->durability == TRAIN_DURABLE_STEP ? "step" : "none");
    snprintf(ratio, sizeof ratio, "%.9g", o->compress);
    arg_add(a, "compress", ratio);
    for (size_t i = 0; i < o->device.n && o->mode != RUN_MEM; i++)
        arg_device(a, o->device.item[i]);
    if (!o->device.n)
        arg_number(a, "devices", o->devices);
    if (o->device_in_ram || devices_fake(&s->run)) // the child's are not, but nothing of theirs is
                                                   // used
        arg_add(a, "device-in-ram", NULL);
}

/* The child would not say why it does not work in a place that the run would be refused in, too. */
static int places_check(const struct session *s, const char *dir, struct err *err)
{
    const struct train_opts *o = &s->o;
    int                      rc = 0;

    if (o->mode == RUN_MEM || devices_fake(&s->run))
        return 0;
    if (!o->device.n)
        return devices_place_check(dir, 0, o->device_in_ram, err);
    for (size_t i = 0; i < o->device.n && !rc; i++)
        rc = devices_place_check(o->device.item[i], 1, o->device_in_ram, err);
    return rc;
}

/* Ctrl-C ends the child, which removes its files; this process ends when it has. */
static int child_run(json_t **out, struct args *a, struct err *err)
{
    sigset_t ends, before;
    char *argv[MOST_ARGS + 3] = { (char *)(uintptr_t) "/proc/self/exe", (char *)(uintptr_t) "benc"
                                                                                            "h" };
    int      rc;

    memcpy(argv + 2, a->v, sizeof a->v);
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, &before);
    rc = bench_child(out, argv, NULL, err);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return rc == -ENOENT ? err_set(err, rc, "/proc is not there to start this program from") : rc;
}

/* ---- the whole from the parts ---- */

static double host_bytes(const struct session *s)
{
    struct link_meter     m;
    double                sum = 0;

    traffic_computed(&m, &s->run);
    for (int k = 0; k < LINK_CLASSES; k++)
        for (int d = 0; d < LINK_DIRS; d++)
            if (k != CLASS_STATES &&
                !(s->run.mode == RUN_BASE && k == CLASS_GRADIENT && d == LINK_READ) &&
                !(k == CLASS_WIRE && d == LINK_WRITE))
                sum += (double)m.bytes[LINK_HOST][k][d];
    return sum;
}

/* Layers that compute their activations again in backward, as a part of all. */
static double recomputed(const struct session *s, const struct budget *plan)
{
    size_t n = s->gpt.n_layer;

    return n && !plan->record_buffers ? (double)(n - plan->kept) / (double)n : 0;
}

static void scale(struct probe *p, const json_t *measured, const struct session *s,
                  const struct gpt_config *g, size_t batch, size_t seq, const struct budget *plan)
{
    const json_t         *c = json_object_get(measured, "computing");
    const json_t         *m = json_object_get(measured, "moving");
    struct bench_figures *f = &p->parts;
    double tokens = (double)(s->o.batch * s->o.seq * s->o.grad_accum) / (double)(batch * seq);
    double layers = tokens * (double)s->gpt.n_layer * layer_flops(&s->gpt, (double)s->o.seq) /
                    ((double)g->n_layer * layer_flops(g, (double)seq));
    double params = (double)gpt_total(&s->gpt), small = bench_number(m, "parameters");
    double head = s->gpt.n_labels ? 0 : tokens, block_0 = (double)gpt_block_size(&s->gpt, 0);
    double moved = bench_number(m, "moved");

    p->layers = g->n_layer;
    p->tokens = batch * seq;
    f->F = layers * bench_number(c, "forward");
    f->B = layers * bench_number(c, "backward") + recomputed(s, plan) * f->F +
           head * bench_number(c, "loss") +
           bench_number(c, "gradient") * params / (double)gpt_total(g);
    f->h = head * bench_number(c, "loss") +
           layers * bench_number(c, "backward") / (double)s->gpt.n_layer;
    f->U = bench_number(m, "update") * params / small;
    f->u0 = f->U * block_0 / params;
    f->w0 = bench_number(m, "w0") * block_0 / bench_number(m, "block_0");
    f->W = moved > 0 ? bench_number(m, "moving") * host_bytes(s) / moved : 0;
    f->A = bench_number(m, "arithmetic") * params / (double)s->o.threads;
    if (s->o.csd) // devices that answer at once
        f->U = f->u0 = f->w0 = f->W = f->A = 0;
    p->step = s->o.mode == RUN_MEM ? f->F + f->B + f->U : bench_bound(f, s->o.speculate);
}

int probe_step(struct probe *out, const struct session *s, const struct budget *plan,
               const char *dir, struct err *err)
{
    struct args       a = { .err = err };
    struct gpt_config g;
    size_t            batch, seq;
    json_t           *report = NULL;
    int               rc;

    *out = (struct probe){ 0 };
    small_of(&g, &batch, &seq, s);
    args_make(&a, s, &g, batch, seq, dir);
    rc = a.rc ? a.rc : places_check(s, dir, err);
    if (!rc)
        rc = child_run(&report, &a, err);
    if (!rc)
        scale(out, json_object_get(report, "probe"), s, &g, batch, seq, plan);
    if (!rc && !(out->step > 0))
        rc = err_set(err, -EIO, "the probe measured nothing");
    for (size_t i = 0; i < a.n; i++)
        free(a.v[i]);
    json_decref(report);
    return rc;
}
