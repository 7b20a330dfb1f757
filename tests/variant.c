/* variant.c: see variant.h. */
#include "tests/variant.h"

#include "offload/estimate/traffic.h"
#include "offload/layout/act_rule.h"
#include "tests/smartssd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const size_t sizes[BLOCKS] = { 30011, 17000, 17000, 17000, 17000, 77 };

const struct variant variant_mem = { RUN_MEM, 1, 1 << 20, 2, 1, .disk = "sync" };

void variant_make(struct toy *t, const struct variant *v, enum speculation speculation)
{
    struct run_config cfg = toy_config(NULL, v->mode, sizes, BLOCKS);

    cfg.wire_dt = v->fp32 ? DT_F32 : DT_BF16;
    cfg.optim = v->optim;
    cfg.compress = v->compress;
    cfg.n_devices = v->devices;
    cfg.disk = v->disk;
    cfg.csd_mem = v->csd_mem;
    cfg.frames = v->frames;
    cfg.grad_buffers = v->grad_buffers;
    cfg.commit_every = 1;
    cfg.durable = 1;
    cfg.error_feedback = v->feedback != SENT_IS_ALL;
    cfg.residual_in_ram = v->feedback == IN_RAM;
    cfg.speculate = speculation != WAIT;
    cfg.spares = speculation == SPECULATE                ? RUN_SPARES_ALL
                 : (v->devices + v->grad_buffers) % 2 ? RUN_SPARES_FEW
                                                      : RUN_SPARES_HALF;
    cfg.read_ahead = v->devices % 2; // one byte, or 64 MiB: more than the model has
    if (v->mode != RUN_MEM) // pieces: none, a few or many a layer, through one to six buffers
        cfg.acts = toy_acts(&cfg, (v->devices + v->frames) % 3 * (1 + 4 * v->grad_buffers % 7),
                            10007, 1 + (v->frames + v->grad_buffers) % 6);
    if (v->cards)
        smartssd_run(&cfg);
    toy_make(t, &cfg);
}

/* ---- what a step moved ---- */

static int index_of(const char *name, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], name))
            return i;
    fail_msg("run.db has traffic of %s", name);
    return -1;
}

/* A row of run.db's traffic, added to a meter. */
static int traffic_row(void *ctx, int n, const char **v, const char **names)
{
    struct link_meter *m = ctx;

    (void)n, (void)names;
    m->bytes[index_of(v[0], link_kind_names, LINK_KINDS)]
            [index_of(v[1], link_class_names, LINK_CLASSES)]
            [index_of(v[2], link_dir_names, LINK_DIRS)] += strtoull(v[3], NULL, 10);
    return 0;
}

struct link_meter variant_traffic(struct toy *t, uint64_t step)
{
    struct run_config c = t->cfg;
    struct act_item  piece[TOY_PIECES];
    struct link_meter want, got = { 0 };
    char              sql[128];

    size_t n = toy_pieces(&t->cfg, step, piece);
    must(t, act_rule_moves(&c.acts.written, &c.acts.read, c.acts.buffers, piece, n, &t->err));
    traffic_computed(&want, &c);
    snprintf(sql, sizeof sql,
             "SELECT link, class, direction, bytes FROM traffic_per_step WHERE step = %llu",
             (unsigned long long)step);
    must(t, runlog_query(t->cfg.log, sql, traffic_row, &got, &t->err));
    assert_memory_equal(got.bytes, want.bytes, sizeof got.bytes);
    return got;
}

/* What a skipped step leaves in run.db: all that the others do. */
static int skipped_row(void *ctx, int n, const char **v, const char **names)
{
    (void)n, (void)names;
    assert_true(strtoull(v[0], NULL, 10) > 0);
    ++*(int *)ctx;
    return 0;
}

static void skipped_check(struct toy *t)
{
    int rows = 0;

    must(t, runlog_query(t->cfg.log, "SELECT peak_rss FROM steps WHERE skipped", skipped_row, &rows,
                         &t->err));
    assert_int_equal(rows, 1);
}

/* ---- a run ---- */

/* A pass that only reads, of the step to come. */
static double evaluate(struct toy *t, struct stream *s, uint64_t step)
{
    const void *wire;
    double      sum = 0;

    must(t, stream_begin(s, STREAM_EVAL, step, &t->err));
    for (size_t b = 0; b <= BLOCKS; b++) {
        must(t, stream_acquire(s, b % BLOCKS, &wire, &t->err));
        sum += dtype_get(wire, t->cfg.wire_dt, 1);
        stream_release(s, b % BLOCKS);
    }
    return sum;
}

/* From the last commit to v's next stop. *began is where the part before this one began: if this
 * one begins there, too, it ends only when all is committed. The position after it. */
static uint64_t run_part(struct toy *t, const struct variant *v, uint64_t *began, int evals,
                         double *loss)
{
    struct stream *s = toy_open(t);
    uint64_t       step, applied;
    double         unused;
    int            stuck;

    must(t, run_position(&t->cfg, &step, &applied, &t->err));
    stuck = step == *began;
    *began = step;
    for (int n = 0; step < STEPS && (v->stop_every == 0 || n < v->stop_every); n++, step++) {
        int poison = v->poison_step && (int)step == v->poison_step;

        must(t, toy_step(&t->cfg, s, step, poison, 0, &loss[step], &t->err));
        for (int e = 0; e < evals; e++)
            evaluate(t, s, step + 1);
    }
    if (v->quit_block && step < STEPS)
        must(t, toy_step(&t->cfg, s, step, 0, v->quit_block, &unused, &t->err));
    if (step == STEPS || v->mode == RUN_MEM || stuck)
        must(t, stream_drain(s, &t->err));
    stream_close(s);
    must(t, run_position(&t->cfg, &step, &applied, &t->err)); // the rest is computed again
    return step;
}

static struct trained run_through(const struct variant *v, enum speculation speculation, int evals)
{
    struct toy     t;
    struct trained out = { 0 };
    uint64_t       step, began = UINT64_MAX;

    variant_make(&t, v, speculation);
    do
        step = run_part(&t, v, &began, evals, out.loss);
    while (step < STEPS);
    assert_int_equal(step, STEPS);
    out.params = toy_sum(&t);
    if (v->mode != RUN_MEM && v->stop_every == 0 && v->poison_step == 0)
        for (step = 1; step < STEPS; step++) // clipped and not
            variant_traffic(&t, step);
    if (v->poison_step)
        skipped_check(&t);
    toy_remove(&t);
    return out;
}

struct trained variant_run(const struct variant *v)
{
    return run_through(v, WAIT, 0);
}

void variant_same_evals(const struct variant *v, const struct trained *want, int evals)
{
    enum speculation end = v->mode == RUN_BASE || v->mode == RUN_SUO ? SPECULATIONS : SPECULATE;

    for (enum speculation p = WAIT; p < end; p++) {
        struct trained got = run_through(v, p, evals);

        // which one it was, should it fail
        print_message("mode %d devices %zu csd_mem %zu frames %zu disk %s stop %d feedback %d quit "
                      "%zu speculation %d\n",
                      (int)v->mode, v->devices, v->csd_mem, v->frames, v->disk, v->stop_every,
                      (int)v->feedback, v->quit_block, (int)p);
        assert_memory_equal(got.loss, want->loss, sizeof got.loss);
        assert_int_equal(got.params, want->params);
    }
}

void variant_same(const struct variant *v, const struct trained *want)
{
    variant_same_evals(v, want, 0);
}
