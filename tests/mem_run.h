/* mem_run.h: a run of mode mem beside an oracle in plain C, for the tests of its steps and of its
 * images. */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/db/runlog_parts.h"
#include "kernels/rng.h"
#include "kernels/update/reduce.h"
#include "kernels/update/topk.h"
#include "offload/devices/image.h"
#include "offload/run.h"
#include "offload/stream/stream_open.h"
#include "tests/toy.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCKS = 4 };

static const size_t sizes[BLOCKS] = { 40001, 70000, 70000, 33 };

struct fixture {
    char              dir[64], db[96];
    struct runlog    *log;
    struct run_config cfg;
    struct stream    *s;
};

static inline float init_value(size_t block, size_t i)
{
    return rng_uniform(1, block, i) - 0.5f;
}

static inline int init_read(void *ctx, size_t block, size_t first, size_t n, float *out,
                            struct err *err)
{
    (void)err;
    if (ctx)
        return err_set(err, -EIO, "no values for block %zu", block);
    for (size_t i = 0; i < n; i++)
        out[i] = init_value(block, first + i);
    return 0;
}

/* The first 20,000 parameters of a block decay, the others do not. */
static inline float decay(void *ctx, size_t block, size_t i, size_t n, size_t *count)
{
    size_t left = i < 20000 ? 20000 - i : n;

    (void)ctx, (void)block;
    *count = left < n ? left : n;
    return i < 20000 ? 0.1f : 0.0f;
}

static inline float grad_value(uint64_t step, size_t block, size_t i)
{
    return rng_uniform(2 + step, block, i) - 0.5f;
}

/* The oracle. */

struct oracle {
    float   *w[BLOCKS], *m[BLOCKS], *v[BLOCKS], *g[BLOCKS], *owed[BLOCKS];
    uint64_t applied;
};

static inline void oracle_init(struct oracle *o)
{
    o->applied = 0;
    for (size_t b = 0; b < BLOCKS; b++) {
        o->w[b] = malloc(sizes[b] * sizeof(float));
        o->m[b] = calloc(sizes[b], sizeof(float));
        o->v[b] = calloc(sizes[b], sizeof(float));
        o->g[b] = malloc(sizes[b] * sizeof(float));
        o->owed[b] = calloc(sizes[b], sizeof(float));
        for (size_t i = 0; i < sizes[b]; i++)
            o->w[b][i] = init_value(b, i);
    }
}

static inline void oracle_release(struct oracle *o)
{
    for (size_t b = 0; b < BLOCKS; b++) {
        free(o->w[b]);
        free(o->m[b]);
        free(o->v[b]);
        free(o->g[b]);
        free(o->owed[b]);
    }
}

static inline void oracle_compress(float *g, size_t n, double ratio)
{
    size_t            k = topk_count(n, ratio);
    struct topk_pair *pairs = malloc(k * sizeof *pairs);
    void             *scratch = malloc(topk_scratch(n, k));

    topk_select(pairs, g, n, k, scratch);
    memset(g, 0, n * sizeof *g);
    for (size_t i = 0; i < k; i++)
        g[pairs[i].index] = pairs[i].value;
    free(pairs);
    free(scratch);
}

static inline struct optim_step scalars(const struct run_config *cfg, uint64_t t)
{
    struct optim_step s;

    optim_scalars(&s, cfg->optim, 1e-2, 0.9, 0.99, 1e-8, 0.7, t);
    return s;
}

static inline void oracle_step(struct oracle *o, const struct run_config *cfg, uint64_t step)
{
    struct optim_step s = scalars(cfg, ++o->applied);

    for (size_t b = 0; b < BLOCKS; b++) {
        size_t cut = sizes[b] < 20000 ? sizes[b] : 20000;

        for (size_t i = 0; i < sizes[b]; i++)
            o->g[b][i] = o->owed[b][i] += grad_value(step, b, i);
        if (cfg->compress > 0.0)
            oracle_compress(o->g[b], sizes[b], cfg->compress);
        for (size_t i = 0; i < sizes[b]; i++)
            if (!cfg->error_feedback || o->g[b][i] != 0.0f)
                o->owed[b][i] = 0.0f;
        optim_update(o->w[b], o->m[b], o->v[b], o->g[b], cut, 0.1f, &s);
        optim_update(o->w[b] + cut, o->m[b] + cut, o->v[b] + cut, o->g[b] + cut, sizes[b] - cut,
                     0.0f, &s);
    }
}

/* The fixture. */

static inline void open_run(struct fixture *f)
{
    struct err err = { 0 };

    if (runlog_open(&f->log, f->db, 0, f->cfg.durable, &err))
        fail_msg("%s", err.text);
    f->cfg.log = f->log;
    if (stream_mem_open(&f->s, &f->cfg, &err))
        fail_msg("%s", err.text);
}

static inline void close_run(struct fixture *f)
{
    stream_close(f->s);
    runlog_close(f->log);
    f->s = NULL;
    f->log = NULL;
}

static inline int setup(void **state)
{
    struct fixture             *f = calloc(1, sizeof *f);
    const struct params_source init = { .read = init_read };
    struct err                 err = { 0 };

    strcpy(f->dir, "/var/tmp/sitrain-mem-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->db, sizeof f->db, "%s/run.db", f->dir);
    f->cfg = (struct run_config){ .dir = f->dir,
                                  .id = "0123",
                                  .mode = RUN_MEM,
                                  .route = toy_route(BLOCKS),
                                  .block_params = sizes,
                                  .decay = decay,
                                  .wire_dt = DT_BF16,
                                  .optim = OPTIM_ADAMW };
    assert_int_equal(runlog_create(&f->log, f->db, 0, &err), 0);
    f->cfg.log = f->log;
    if (image_format(&f->cfg, &init, &err))
        fail_msg("%s", err.text);
    runlog_close(f->log);
    *state = f;
    return 0;
}

static inline int teardown(void **state)
{
    struct fixture          *f = *state;
    static const char *const names[] = { "run.db",   "run.db-wal", "run.db-shm",
                                         "run.lock", "image0",     "image1" };
    char                     path[128];

    if (f->log)
        close_run(f);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", f->dir, names[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(f->dir), 0);
    free(f);
    return 0;
}

/* Gradients in the order of a real step; block 0's is asked for twice, as a tied head does. */
static inline void step_grads(struct fixture *f, uint64_t step, struct norm_sum *norm)
{
    struct err err;
    float     *g, *again;
    int        fresh;

    assert_int_equal(stream_begin(f->s, STREAM_TRAIN, step, &err), 0);
    assert_int_equal(stream_grad(f->s, 0, 0, &g, &fresh, &err), 0);
    assert_true(fresh);
    g[0] = 1.0f;
    assert_int_equal(stream_grad(f->s, 0, 0, &again, &fresh, &err), 0);
    assert_ptr_equal(g, again);
    assert_true(!fresh && again[0] == 1.0f);
    for (size_t b = BLOCKS; b-- > 0;) {
        assert_int_equal(stream_grad(f->s, b, 0, &g, &fresh, &err), 0);
        assert_int_equal(fresh, b > 0);
        for (size_t i = 0; i < sizes[b]; i++)
            g[i] = grad_value(step, b, i);
        assert_int_equal(stream_send_grad(f->s, b, norm, &err), 0);
    }
}

static inline void run_step(struct fixture *f, uint64_t step)
{
    struct norm_sum norm = { 0 };
    struct stream_step up = { .row = { .step = step, .loss = 1.5 },
                              .optim = scalars(&f->cfg, f->s->applied + 1) };
    struct err         err = { 0 };

    step_grads(f, step, &norm);
    assert_false(norm.nonfinite);
    if (stream_update(f->s, &up, &err))
        fail_msg("%s", err.text);
}

static inline void same_wire(struct fixture *f, const struct oracle *o)
{
    for (size_t b = 0; b < BLOCKS; b++) {
        const void *wire;
        size_t      wrong = 0;
        struct err  err;

        assert_int_equal(stream_acquire(f->s, b, &wire, &err), 0);
        assert_int_equal((uintptr_t)wire % 64, 0);
        for (size_t i = 0; i < sizes[b]; i++)
            if (f->cfg.wire_dt == DT_F32)
                wrong += memcmp((const float *)wire + i, &o->w[b][i], 4) != 0;
            else
                wrong += ((const bf16 *)wire)[i] != bf16_from_f32(o->w[b][i]);
        assert_int_equal(wrong, 0);
        stream_release(f->s, b);
    }
}

/* What is committed, through the reader, in odd parts; while the stream is open, its images are its
 * alone. */
static inline void same_masters(struct fixture *f, const struct oracle *o)
{
    struct image_reader  r;
    struct params_source source;
    struct err           err = { 0 };
    float                part[9973];

    stream_close(f->s);
    if (image_reader_open(&r, &source, &f->cfg, &err))
        fail_msg("%s", err.text);
    for (size_t b = 0; b < BLOCKS; b++)
        for (size_t i = 0; i < sizes[b]; i += 9973) {
            size_t n = sizes[b] - i < 9973 ? sizes[b] - i : 9973;

            assert_int_equal(source.read(source.ctx, b, i, n, part, &err), 0);
            assert_memory_equal(part, o->w[b] + i, n * sizeof *part);
        }
    image_reader_close(&r);
    if (stream_mem_open(&f->s, &f->cfg, &err))
        fail_msg("%s", err.text);
}

static inline void expect_position(struct fixture *f, uint64_t step, uint64_t applied)
{
    uint64_t   s, a;
    struct err err = { 0 };

    if (run_position(&f->cfg, &s, &a, &err))
        fail_msg("%s", err.text);
    assert_int_equal(s, step);
    assert_int_equal(a, applied);
}

static inline int one_number(void *ctx, int n, const char **values, const char **names)
{
    (void)names;
    assert_int_equal(n, 1);
    *(double *)ctx = values[0] ? atof(values[0]) : NAN;
    return 0;
}

static inline double query(struct fixture *f, const char *sql)
{
    double     x = -1.0;
    struct err err = { 0 };

    if (runlog_query(f->log, sql, one_number, &x, &err))
        fail_msg("%s", err.text);
    return x;
}

/* The tests. */

static inline void steps_equal(struct fixture *f)
{
    struct oracle o;
    struct err    err;

    oracle_init(&o);
    open_run(f);
    expect_position(f, 0, 0);
    same_wire(f, &o);
    same_masters(f, &o);
    for (uint64_t t = 0; t < 4; t++) {
        run_step(f, t);
        oracle_step(&o, &f->cfg, t);
        same_wire(f, &o);
    }
    assert_int_equal(f->s->applied, 4);
    expect_position(f, 0, 0);
    assert_int_equal(stream_drain(f->s, &err), 0);
    expect_position(f, 4, 4);
    same_masters(f, &o);
    close_run(f);
    open_run(f); // moments came back too
    run_step(f, 4);
    oracle_step(&o, &f->cfg, 4);
    same_wire(f, &o);
    oracle_release(&o);
}
