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
#include <inttypes.h>
#include <libgen.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LAYERS = 2, LEAST_TOKENS = 32, TOKENS_STEP = 16 };

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

/* Where a device's file is or will be; a block device is not written for a plan. */
static int arg_device(struct bench_args *a, const char *path, struct err *err)
{
    char       *copy = strdup(path);
    struct stat st;
    int         there = !stat(path, &st), rc = copy ? 0 : err_set(err, -ENOMEM, "out of memory");

    if (!rc && there && S_ISBLK(st.st_mode))
        rc = err_set(err, -ENOTSUP,
                     "the block device %s is not written for a plan; siTrain bench --device %s "
                     "measures it, and writes over it",
                     path, path);
    if (!rc)
        bench_arg(a, "--device=%s", there && S_ISDIR(st.st_mode) ? path : dirname(copy));
    free(copy);
    return rc;
}

static void args_make(struct bench_args *a, const struct session *s, const struct gpt_config *g,
                      size_t batch, size_t seq, const char *dir)
{
    const struct train_opts *o = &s->o;

    bench_arg(a, BENCH_SELF);
    bench_arg(a, "bench");
    bench_arg(a, "--probe");
    bench_arg(a, "--json=-");
    bench_arg(a, "--rounds=2");
    bench_arg(a, "--steps=3");
    bench_arg(a, "--dir=%s", dir);
    bench_arg(a, "--n-layer=%zu", g->n_layer);
    bench_arg(a, "--n-head=%zu", g->n_head);
    bench_arg(a, "--n-embd=%zu", g->n_embd);
    bench_arg(a, "--vocab=%zu", g->vocab);
    bench_arg(a, "--batch=%zu", batch);
    bench_arg(a, "--seq=%zu", seq);
    bench_arg(a, "--threads=%" PRIu64, o->threads);
    bench_arg(a, "--csd-mem=%" PRIu64, o->csd_mem);
    bench_arg(a, "--link-bw=%" PRIu64, o->link_bw);
    bench_arg(a, "--csd-read-bw=%" PRIu64, o->csd_read_bw);
    bench_arg(a, "--csd-write-bw=%" PRIu64, o->csd_write_bw);
    bench_arg(a, "--mode=%s", train_mode_name((size_t)o->mode));
    bench_arg(a, "--disk=%s", disk_name((size_t)o->disk));
    bench_arg(a, "--dtype=%s", dtype_name((size_t)o->dtype));
    bench_arg(a, "--blas=%s", matmul_engine_name((enum matmul_engine)o->blas));
    bench_arg(a, "--optimizer=%s", optim_name((enum optim_kind)o->optimizer));
    bench_arg(a, "--durability=%s", o->durability == TRAIN_DURABLE_STEP ? "step" : "none");
    bench_arg(a, "--compress=%.9g", o->compress);
    if (!o->device.n)
        bench_arg(a, "--devices=%" PRIu64, o->devices);
    // the child's devices are real, but nothing of theirs is used
    if (o->device_in_ram || devices_fake(&s->run))
        bench_arg(a, "--device-in-ram");
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
static int child_run(json_t **out, struct bench_args *a, struct err *err)
{
    sigset_t ends, before;
    int      rc;

    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, &before);
    rc = bench_self(out, a, NULL, err);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return rc;
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
    struct bench_args a = {0};
    struct gpt_config g;
    size_t            batch, seq;
    json_t           *report = NULL;
    int               rc = places_check(s, dir, err);

    *out = (struct probe){ 0 };
    small_of(&g, &batch, &seq, s);
    args_make(&a, s, &g, batch, seq, dir);
    for (size_t i = 0; i < s->o.device.n && s->o.mode != RUN_MEM && !rc; i++)
        rc = arg_device(&a, s->o.device.item[i], err);
    if (rc)
        bench_args_free(&a);
    else
        rc = child_run(&report, &a, err);
    if (!rc)
        scale(out, json_object_get(report, "probe"), s, &g, batch, seq, plan);
    if (!rc && !(out->step > 0))
        rc = err_set(err, -EIO, "the probe measured nothing");
    json_decref(report);
    return rc;
}
