/* bench_runs.c: makes and trains runs to measure whole steps, with newrun.c and training.c like any
 * other run. Their times come from run.db. The first step after each opening is left out. */
#include "bench/bench.h"

#include "cmd/terminal/progress.h"
#include "cmd/terminal/say.h"
#include "data/base/clock.h"
#include "data/file/file.h"
#include "data/base/round.h"
#include "kernels/elementwise.h"
#include "kernels/rng.h"
#include "run/folder/drives.h"
#include "run/loop/training.h"
#include "run/newrun.h"
#include "run/ranks/job_run.h"

enum { TOKEN_ROWS = 64, MOST_WORDS = 65535 };

/* ---- making ---- */

/* A random token. For an encoder it is neither padding nor a mask, which would not be predicted. */
static size_t token_at(const struct bench *b, size_t i, uint64_t mask)
{
    const struct model_config *g = &b->config;
    size_t words = size_min(g->vocab, MOST_WORDS), id = (size_t)(rng_bits(1, 0, i) % words);

    for (int k = 0; k < 2 && g->arch->encoder; k++)
        id = (id + (id == g->pad || id == mask)) % words;
    return id;
}

/* Writes random tokens, enough that a short run uses no row twice. */
static int write_tokens(const struct bench *b, const char *path, uint64_t mask, struct err *err)
{
    size_t    n = TOKEN_ROWS * b->o->train.seq + 1;
    uint16_t *ids = malloc(sizeof *ids * n);

    for (size_t i = 0; i < n && ids; i++)
        ids[i] = (uint16_t)token_at(b, i, mask);
    int rc = ids ? file_write_whole(path, ids, sizeof *ids * n, err)
                 : err_set(err, -ENOMEM, "out of memory for %zu tokens", n);
    free(ids);
    return rc;
}

int bench_run_make(const struct bench *b, const char *folder, int mode, int fake, int speculate,
                   struct err *err)
{
    char             *tokens = NULL, *dir = file_path(err, "%s/%s", b->scratch, folder);
    struct train_opts o = b->o->train;

    o.mode = mode;
    o.csd = opt_words_find(csd_name, fake ? "null" : "emu", fake ? 4 : 3);
    o.speculate = speculate;
    o.device = (struct opt_strings){0};
    if (b->n_devices && mode != RUN_MEM && !fake)
        o.device = (struct opt_strings){(const char **)(uintptr_t)b->devices, b->n_devices};
    o.quiet = 1;
    o.keep_best = 0;
    o.eval_every = 0;
    o.schedule_steps = o.steps = o.commit_every = 1000000;
    if (mode == RUN_MEM)
        o.host_mem = 0;
    if (dir)
        tokens = file_path(err, "%s.tokens", dir);
    if (arch_is_masked(&b->config) && !o.mask.id)
        o.mask.id = b->config.pad == 1 ? 2 : 1;
    int rc = tokens ? write_tokens(b, tokens, o.mask.id, err) : -ENOMEM;
    for (size_t i = 0; i < o.device.n && !rc; i++)
        bench_device_clear(b, i);
    const char              *path = tokens;
    const struct corpus_opts corpus = { .data = { &path, 1 }, .format = TOKENS_U16 };
    if (!rc)
        rc = newrun_create(
            &(struct newrun){ .dir = dir, .config = b->config, .o = &o,
                              .corpus = &corpus, .comm = b->comm }, err);
    free(tokens);
    free(dir);
    return rc;
}

/* ---- a step's times in run.db ---- */

#define HOST(phases) "sum(d) FILTER (WHERE phase IN ('" phases "') AND device < 0)"
#define BEGIN(what) "min(start_ns) FILTER (WHERE " what ") / 1e9"
#define END(what)   "max(end_ns) FILTER (WHERE " what ") / 1e9"

/* host: the computing thread, which does one thing at a time. u0, w0: of block 0; u0 ends when its
 * parameters can be read, which naive updates do not show. moving: reads of parameters and writes
 * of gradients. head: from the last layer's output to its gradient. drive_rate: of a drive during
 * updates, in this whole visit. */
// clang-format off
static const char parts_sql[] =
    "SELECT max(s.seconds) AS seconds,"
    " " HOST("forward") " AS forward,"
    " " HOST("loss") " AS loss,"
    " " HOST("backward") " AS backward,"
    " " HOST("grad_norm', 'grad_compress") " AS gradient,"
    " " HOST("wait_update', 'wait_commit") " AS wait_update,"
    " " HOST("wait_params") " AS wait_read,"
    " " HOST("wait_gradient', 'wait_residual") " AS wait_write,"
    " sum(d) FILTER (WHERE phase = 'commit') AS \"commit\","
    " " END("phase = 'update'") " - " BEGIN("phase = 'update'") " AS \"update\","
    " coalesce(" END("phase = 'update_params' AND block = 0") ", "
        END("phase = 'update' AND block = 0") ") - "
        BEGIN("phase = 'update' AND block = 0") " AS u0,"
    " " END("phase = 'grad_write' AND block = 0 AND device >= 0") " - "
        BEGIN("phase = 'grad_write' AND block = 0 AND device >= 0") " AS w0,"
    " " END("phase = 'grad_write' AND device >= 0") " - "
        BEGIN("phase = 'param_read' AND device >= 0") " AS moving,"
    " (SELECT sum(bytes) FROM traffic t WHERE t.step = s.step AND link = 'host'"
    " AND phase IN ('param_read', 'grad_write')) AS moved,"
    " (SELECT avg(bytes_per_second) FROM drive_rate WHERE process ="
    " (SELECT max(process) FROM processes)) AS drive_rate,"
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

json_t *bench_run_medians(const json_t *steps)
{
    json_t     *out = json_object(), *step, *value;
    double      v[BENCH_MOST_STEPS];
    const char *key;
    size_t      i;

    json_object_foreach(json_array_get(steps, 0), key, value) {
        size_t n = 0;
        json_array_foreach(steps, i, step)
            if (n < BENCH_MOST_STEPS)
                v[n++] = json_num(step, key);
        json_object_set_new(out, key, json_real(bench_median(v, n)));
    }
    return out;
}

/* ---- steps without computing ---- */

/* What a step offloads, in the order of pushes. */
struct drive_acts {
    struct placement  placement;
    struct acts_sizes sizes;
    size_t            n;
    struct act_item  *piece;
};

/* A step under way. After a failure it does nothing more. */
struct drive {
    struct session    *s;
    struct stream     *st;
    struct norm_sum norm;
    const struct drive_acts *a;
    size_t             at; // pieces that are pushed and not popped
    uint64_t           layer_ns; // time that a layer's forward takes instead of computing
    int                rc;
    struct err        *err;
};

static void sleep_ns(uint64_t ns)
{
    struct timespec left = { .tv_sec = (time_t)(ns / 1000000000),
                             .tv_nsec = (long)(ns % 1000000000) };

    while (nanosleep(&left, &left) && errno == EINTR)
        ;
}

/* Holds a layer as long as computing would take: backward takes twice as long as forward. */
static void pass_block(struct drive *d, size_t block, int backward)
{
    struct route_span layers = route_shared(&d->s->run.route);
    const void       *wire;

    if (d->rc || (d->rc = stream_acquire(d->st, block, &wire, d->err)))
        return;
    if (d->layer_ns > 0 && block >= layers.first && block < layers.end)
        sleep_ns(d->layer_ns * (backward ? 2 : 1));
    stream_release(d->st, block);
}

static void send_grad(struct drive *d, size_t block)
{
    float *grad;
    int    fresh;

    if (d->rc || (d->rc = stream_grad(d->st, block, 0, &grad, &fresh, d->err)))
        return;
    if (fresh)
        floats_zero(grad, arch_block_size(&d->s->config, block));
    d->rc = stream_send_grad(d->st, block, &d->norm, d->err);
}

static int piece_push(struct drive *d)
{
    const struct act_item *piece = &d->a->piece[d->at++];
    void                  *place;
    int                    rc = stream_push(d->st, piece->first, &place, d->err);

    if (!rc)
        stream_pushed(d->st, piece->bytes, d->a->n - d->at);
    return rc;
}

static int piece_pop(struct drive *d)
{
    void *place;
    int   rc = stream_pop(d->st, &place, d->err);

    if (!rc)
        stream_popped(d->st);
    d->at--;
    return rc;
}

/* Moves the records of all micro-batches of a layer, piece by piece. */
static void move_records(struct drive *d, size_t layer, int (*move)(struct drive *d))
{
    const struct acts_sizes *of = &d->a->sizes;
    size_t records = layer > 0 ? of->accum * acts_records(of, &d->a->placement, layer) : 0;

    for (; records > 0 && !d->rc; records--)
        do
            d->rc = move(d);
        while (!d->rc && d->at < d->a->n && !d->a->piece[d->at].first);
}

static int drive_step(struct session *s, struct stream *st, const struct drive_acts *acts,
                      uint64_t layer_ns, uint64_t step, struct err *err)
{
    struct stream_step up = {.row = {.step = step}, .began_ns = clock_ns()};
    struct drive       d = {.s = s, .st = st, .a = acts, .err = err,
                            .layer_ns = layer_ns,
                            .rc = stream_begin(st, STREAM_TRAIN, step, err)};

    for (size_t i = 0; route_at(&s->run.route, STREAM_TRAIN, i).uses; i++) {
        struct route_at at = route_at(&s->run.route, STREAM_TRAIN, i);

        if (at.uses & ROUTE_READ)
            pass_block(&d, at.block, at.uses & ROUTE_ADD);
        if (!(at.uses & ROUTE_ADD))
            move_records(&d, at.block, piece_push);
        if (at.uses & ROUTE_SEND) {
            move_records(&d, at.block, piece_pop);
            send_grad(&d, at.block);
        }
    }
    d.rc = d.rc ? d.rc : stream_norm_end(st, &d.norm, err);
    optim_scalars(&up.optim, (enum optim_kind)s->o.optimizer, 1e-4, s->o.beta1, s->o.beta2,
                  s->o.eps, 1, st->applied + 1);
    return d.rc ? d.rc : stream_update(st, &up, err);
}

static int drive_acts(struct drive_acts *a, const struct session *s, const struct budget *plan,
                      struct err *err)
{
    struct model_options m = training_options(s).model;

    m.doubled = plan->doubled;
    a->placement = memory_placement(plan, &m, &train_activations[s->o.activations]);
    m.whole = memory_whole(plan, &s->run, &m);
    a->sizes = acts_sizes(&m);
    a->n = acts_list(&a->sizes, &a->placement, NULL);
    a->piece = calloc(a->n + 1, sizeof *a->piece);
    if (!a->piece)
        return err_set(err, -ENOMEM, "out of memory for %zu activations", a->n);
    a->n = acts_list(&a->sizes, &a->placement, a->piece);
    return 0;
}

static int drive(const struct bench *b, struct session *s, uint64_t next, uint64_t steps,
                 int apart, struct err *err)
{
    struct drive_acts acts = {.n = 0};
    struct stream    *st = NULL;
    struct budget     plan;
    char              notice[512];
    int               rc = training_plan_here(&plan, s, 0, err);

    rc = rc ? rc : job_run_frames(s, err);
    rc = rc ? rc : drive_acts(&acts, s, &plan, err);
    rc = rc ? rc : run_train(&st, &s->run, notice, sizeof notice, err);
    rc = rc ? rc : stream_drain(st, err);
    rc = rc ? rc : drives_record(s, err);
    rc = rc ? rc : runlog_process(s->log, next, err);
    for (uint64_t i = 0; i < 1 + steps && !rc; i++) {
        rc = drive_step(s, st, &acts, b->o->layer_us * 1000, next + i, err);
        if (!rc && (apart || i == steps))
            rc = stream_drain(st, err);
    }
    stream_close(st);
    free(acts.piece);
    return rc;
}

/* ---- training on ---- */

int bench_run(const struct bench *b, const char *folder, enum bench_way way, uint64_t steps,
              json_t *out, struct err *err)
{
    struct session      s = {0};
    struct events       silent = say_events;
    struct training_end end;
    uint64_t            next = 0, applied;
    char                sql[sizeof parts_sql + 64];
    char               *dir = file_path(err, "%s/%s", b->scratch, folder);
    int                 rc = dir ? session_open(&s, dir, SESSION_WRITE, &say_events, err) : -ENOMEM;

    silent.notice = NULL;
    if (!rc && s.run.csd->flags & CSD_FAKE) // here fake devices are intended
        s.events = &silent;
    s.o.quiet = 1;
    progress_quiet(1);
    rc = rc ? rc : job_run_join(&s, b->comm && b->comm->size > 1 ? b->comm : NULL, err);
    rc = rc ? rc : run_position(&s.run, &next, &applied, err);
    s.o.steps = next + 1 + steps;
    if (!rc)
        rc = way == BENCH_TRAIN ? training_run(&s, &end, err)
                                : drive(b, &s, next, steps, way == BENCH_DRIVE_APART, err);
    snprintf(sql, sizeof sql, parts_sql, arch_final_block(&s.config) - 1,
             (unsigned long long)next + 1, (unsigned long long)(next + 1 + steps));
    rc = rc ? rc : runlog_query(s.log, sql, part_row, out, err);
    session_close(&s);
    free(dir);
    return rc;
}
