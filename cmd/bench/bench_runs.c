/* bench_runs.c: whole steps. A run is made by newrun.c and trained by training.c, like any other;
 * its times are what run.db has of it. The first step after each opening is left out. */
#include "cmd/bench/bench.h"

#include "cmd/run/newrun.h"
#include "cmd/run/training.h"
#include "cmd/run/training_plan.h"
#include "cmd/say/progress.h"
#include "cmd/say/say.h"
#include "data/text/tokens.h"
#include "data/base/clock.h"
#include "kernels/elementwise.h"
#include "kernels/rng.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TOKEN_ROWS = 64, MOST_WORDS = 65535 };

/* ---- making ---- */

/* Random tokens of which no row is asked for twice in a short run. */
static int write_tokens(const struct bench *b, const char *path, struct err *err)
{
    size_t words = b->gpt.vocab < MOST_WORDS ? b->gpt.vocab : MOST_WORDS,
           n = TOKEN_ROWS * b->o->train.seq + 1;
    struct tokens_writer w = { 0 };
    int32_t             *ids = malloc(sizeof *ids * n);
    int                   rc = ids ? tokens_writer_open(&w, path, err)
                                   : err_set(err, -ENOMEM, "out of memory for %zu tokens", n);

    for (size_t i = 0; i < n && !rc; i++)
        ids[i] = (int32_t)(rng_bits(1, 0, i) % words);
    if (!rc)
        rc = tokens_writer_add(&w, ids, n, err);
    if (!rc)
        rc = tokens_writer_commit(&w, err);
    append_close(&w.ids);
    free(ids);
    return rc;
}

static int places(const struct bench *b, const char *folder, char dir[SESSION_PATH],
                  char tokens[SESSION_PATH], struct err *err)
{
    if (snprintf(dir, SESSION_PATH, "%s/%s", b->scratch, folder) >= SESSION_PATH ||
        snprintf(tokens, SESSION_PATH, "%s/tokens.bin", b->scratch) >= SESSION_PATH)
        return err_misuse(err, "--dir: the path is too long");
    return 0;
}

int bench_run_make(const struct bench *b, const char *folder, int mode, int fake, int speculate,
                   struct err *err)
{
    char dir[SESSION_PATH], tokens[SESSION_PATH], name[] = "bench", *argv[] = { name, NULL };
    struct train_opts o = b->o->train;
    struct newrun n = {
        .dir = dir, .gpt = b->gpt, .o = &o, .data = tokens, .argc = 1, .argv = argv};
    int               rc = places(b, folder, dir, tokens, err);

    o.mode = mode;
    o.csd = opt_words_find(csd_name, fake ? "null" : "emu", fake ? 4 : 3);
    o.speculate = speculate;
    o.device = (struct opt_strings){0};
    if (b->n_devices && mode != RUN_MEM && !fake)
        o.device = (struct opt_strings){(const char **)(uintptr_t)b->devices, b->n_devices};
    o.force_device = 1; // bench.c has asked; what is on it now is a run of our own
    o.quiet = 1;
    o.keep_best = 0;
    o.eval_every = 0;
    o.schedule_steps = o.steps = 1000000;
    o.commit_every = 1000000;
    if (mode == RUN_MEM)
        o.host_mem = 0;
    if (!rc && access(tokens, F_OK))
        rc = write_tokens(b, tokens, err);
    return rc ? rc : newrun_create(&n, err);
}

/* ---- what run.db has of a step ---- */

#define HOST(phase) "sum(d) FILTER (WHERE phase = '" phase "' AND device < 0)"
#define BEGIN(what) "min(start_ns) FILTER (WHERE " what ") / 1e9"
#define END(what)   "max(end_ns) FILTER (WHERE " what ") / 1e9"

/* host: the computing thread, which does one thing at a time. u0, w0: of block 0. moving: reads of
 * parameters and writes of gradients. head: from the last layer's output to its gradient. */
// clang-format off
static const char parts_sql[] =
    "SELECT max(s.seconds) AS seconds,"
    " " HOST("forward") " AS forward,"
    " " HOST("loss") " AS loss,"
    " " HOST("backward") " AS backward,"
    " " HOST("grad_compress") " AS gradient,"
    " " HOST("optimizer_wait") " AS wait_update,"
    " " HOST("param_read") " AS wait_read,"
    " " HOST("grad_write") " AS wait_write,"
    " sum(d) FILTER (WHERE phase = 'commit') AS \"commit\","
    " " END("phase = 'update'") " - " BEGIN("phase = 'update'") " AS \"update\","
    " " END("phase = 'update' AND block = 0") " - "
        BEGIN("phase = 'update' AND block = 0") " AS u0,"
    " " END("phase = 'grad_write' AND block = 0 AND device >= 0") " - "
        BEGIN("phase = 'grad_write' AND block = 0 AND device >= 0") " AS w0,"
    " " END("phase = 'grad_write' AND device >= 0") " - "
        BEGIN("phase = 'param_read' AND device >= 0") " AS moving,"
    " (SELECT sum(bytes) FROM traffic t WHERE t.step = s.step AND link = 'host'"
    " AND phase IN ('param_read', 'grad_write')) AS moved,"
    " " END("phase = 'backward' AND block = %zu") " - " BEGIN("phase = 'loss'") " AS head"
    " FROM (SELECT *, (end_ns - start_ns) / 1e9 AS d FROM spans) JOIN steps s USING (step)"
    " WHERE step >= %llu AND step < %llu GROUP BY step ORDER BY step";
// clang-format on

static int part_row(void *ctx, int n, const char **values, const char **names)
{
    json_t *row = json_object();

    for (int i = 0; i < n && row; i++)
        if (values[i])
            json_object_set_new(row, names[i], json_real(strtod(values[i], NULL)));
    return json_array_append_new(ctx, row) ? -ENOMEM : 0;
}

static int read_parts(struct session *s, uint64_t first, uint64_t end, json_t *out, struct err *err)
{
    char sql[sizeof parts_sql + 64];

    snprintf(sql, sizeof sql, parts_sql, s->gpt.n_layer, (unsigned long long)first,
             (unsigned long long)end);
    return runlog_query(s->log, sql, part_row, out, err);
}

json_t *bench_run_medians(const json_t *steps)
{
    json_t     *out = json_object(), *step, *value;
    double      v[BENCH_STEPS];
    const char *key;
    size_t      i, n;

    json_object_foreach(json_array_get(steps, 0), key, value) {
        n = 0;
        json_array_foreach(steps, i, step)
            if (n < BENCH_STEPS)
                v[n++] = bench_number(step, key);
        json_object_set_new(out, key, json_real(bench_median(v, n)));
    }
    return out;
}

/* ---- going on ---- */

static int run_open(struct session *s, const struct bench *b, const char *folder, uint64_t *next,
                    struct err *err)
{
    char     dir[SESSION_PATH], tokens[SESSION_PATH];
    uint64_t applied;
    int      rc = places(b, folder, dir, tokens, err);

    if (!rc)
        rc = session_open(s, dir, SESSION_WRITE, &say_events, err);
    s->o.quiet = 1;
    progress_quiet(1);
    return rc ? rc : run_position(&s->run, next, &applied, err);
}

int bench_run_train(const struct bench *b, const char *folder, uint64_t steps, json_t *out,
                    struct err *err)
{
    struct session      s = {0};
    struct training_end end;
    uint64_t            next = 0;
    int                 rc = run_open(&s, b, folder, &next, err);

    if (!rc) {
        s.o.steps = next + 1 + steps;
        rc = training_run(&s, &end, err);
    }
    if (!rc && end.how == TRAINING_STOPPED)
        rc = err_set(err, -EINTR, "interrupted");
    if (!rc)
        rc = read_parts(&s, next + 1, next + 1 + steps, out, err);
    session_close(&s);
    return rc;
}

/* ---- without the model ---- */

/* A step under way; after a failure nothing more is done. */
struct drive {
    struct session    *s;
    struct stream     *st;
    struct stream_norm norm;
    size_t             left; // records that forward still pushes
    int                rc;
    struct err        *err;
};

static void pass_block(struct drive *d, size_t block)
{
    const void *wire;

    if (!d->rc && !(d->rc = stream_acquire(d->st, block, &wire, d->err)))
        stream_release(d->st, block);
}

/* Zeros. */
static void send_grad(struct drive *d, size_t block)
{
    float *grad;
    int    fresh;

    if (d->rc || (d->rc = stream_grad(d->st, block, &grad, &fresh, d->err)))
        return;
    if (fresh)
        floats_zero(grad, gpt_block_size(&d->s->gpt, block));
    d->rc = stream_send_grad(d->st, block, &d->norm, d->err);
}

/* A layer's records, if its activations are offloaded: as the first ones' are. */
static size_t records_of(const struct session *s, size_t layer)
{
    return layer >= 1 && layer * s->o.grad_accum <= s->run.acts.n ? s->o.grad_accum : 0;
}

static void push_records(struct drive *d, size_t layer)
{
    void *place;

    for (size_t i = 0; i < records_of(d->s, layer) && !d->rc; i++)
        if (!(d->rc = stream_push(d->st, &place, d->err)))
            stream_pushed(d->st, d->s->run.acts.bytes, --d->left);
}

static void pop_records(struct drive *d, size_t layer)
{
    void *place;

    for (size_t i = 0; i < records_of(d->s, layer) && !d->rc; i++)
        if (!(d->rc = stream_pop(d->st, &place, d->err)))
            stream_popped(d->st);
}

/* The order of stream.h, with nothing computed. */
static int drive_step(struct session *s, struct stream *st, uint64_t step, struct err *err)
{
    size_t             last = s->gpt.n_layer + 1;
    uint64_t           start_ns = clock_ns();
    struct stream_step up = {.row = {.step = step}};
    struct drive       d = {.s = s, .st = st, .left = s->run.acts.n, .err = err,
                            .rc = stream_begin(st, STREAM_TRAIN, step, err)};

    for (size_t b = 0; b <= last; b++) {
        pass_block(&d, b);
        push_records(&d, b);
    }
    pass_block(&d, 0);
    send_grad(&d, last);
    for (size_t b = last - 1; b >= 1; b--) {
        pass_block(&d, b);
        pop_records(&d, b);
        send_grad(&d, b);
    }
    send_grad(&d, 0);
    optim_scalars(&up.optim, (enum optim_kind)s->o.optimizer, 1e-4, s->o.beta1, s->o.beta2,
                  s->o.eps, 1, stream_applied(st) + 1);
    up.row.seconds = (double)(clock_ns() - start_ns) * 1e-9;
    return d.rc ? d.rc : stream_update(st, &up, err);
}

int bench_run_drive(const struct bench *b, const char *folder, uint64_t steps, int apart,
                    json_t *out, struct err *err)
{
    struct session s = {0};
    struct stream *st = NULL;
    struct budget  plan;
    char           notice[512];
    uint64_t       next = 0;
    int            rc = run_open(&s, b, folder, &next, err);

    if (!rc)
        rc = training_plan(&plan, &s, 0, err);
    if (!rc)
        rc = run_train(&st, &s.run, notice, sizeof notice, err);
    if (!rc)
        rc = stream_drain(st, err);
    for (uint64_t i = 0; i < 1 + steps && !rc; i++) {
        rc = drive_step(&s, st, next + i, err);
        if (!rc && apart)
            rc = stream_drain(st, err);
    }
    if (!rc)
        rc = stream_drain(st, err);
    stream_close(st);
    if (!rc)
        rc = read_parts(&s, next + 1, next + 1 + steps, out, err);
    session_close(&s);
    return rc;
}
