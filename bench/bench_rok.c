/* bench_rok.c: `siTrain bench rok`: the ROK curve of SSDTrain (DAC 2025, arXiv 2408.10013): what
 * recomputing, offloading and keeping activations give for the memory that they take, and what
 * those ways give that choose.
 *
 * x: the activations' peak, bytes in RAM: all of the memory plan whose size goes by a step's tokens
 *    (the `items` below): what is kept for backward, layers' inputs, the buffers that offloaded
 *    ones pass through, the workspaces of the layer at hand and the head's chunks. It is made at
 *    open and so is what is held at most; where a way chooses what it keeps, that much of it
 *    counts. Beside it stands the peak of the process's resident set, which has parameters,
 *    gradients, the program and emulated devices' memory too.
 * y: the model's throughput: FLOPs of forward and backward over the step's time. They are those of
 *    the algorithm: what is computed again counts once.
 *
 * A point is a way and a batch. Without --host-mem each way gets the memory that it needs: `keep`
 * what keeps all, and `ssdtrain`, which would leave in memory what cannot be written in time, as
 * much; `recompute` and `offload` what they can work with; `auto` what `offload` gets; and all the
 * same buffers for parameters and gradients. With it all get the same. There is one run for each
 * batch, and the ways take turns with it, each time in a process of its own, which goes on as
 * `pretrain --resume` does. */
#include "bench/bench.h"

#include "data/base/file.h"
#include "data/base/round.h"
#include "data/db/runlog.h"
#include "run/loop/training.h"

#include <assert.h>

enum { MOST_BATCHES = 16, MOST_WAYS = 8 };

/* First steps of each opening that are left out: the first update looks at every value, and the
 * step behind it waits for it; a way that chooses has measured and chosen before the others. */
enum { UNSTEADY = 1, CHOOSING_ONCE = 7, CHOOSING = 26 };

/* Between what a plan in this process needs and one in another, whose parts that are measured may
 * come out a step larger. */
#define SLACK ((uint64_t)12 << 20)

static const struct opt_default defaults[] = {
    { "devices", "2" }, { "rounds", "2" }, { "steps", "2" }, { "n-layer", "4" }, { "n-head", "4" },
    { "n-embd", "256" }, { "vocab", "2048" }, { "seq", "1024" }, { "csd-mem", "16M" },
    { "durability", "none" }, { 0 }
};

/* Of the memory plan what activations take; of the first one, where a way chooses, only what it
 * chose to keep (the table choices). */
static const char *const items[] = { "kept activations", "activation buffers", "block inputs",
                                     "work buffers", "head chunks" };

/* One point of the curve. */
struct point {
    const struct train_activations *way;
    size_t       batch; // number of the batch
    uint64_t     host_mem, activations, peak_rss; // bytes
    double       seconds[BENCH_MOST_ROUNDS * BENCH_MOST_STEPS];
    size_t       n;     // steps that are in it
    int          late;  // it chose again in these steps
};

struct rok {
    struct bench      bench[MOST_BATCHES]; // with its --batch each
    struct bench_opts opts[MOST_BATCHES];
    size_t            n_batches, n;
    struct point      point[MOST_BATCHES * MOST_WAYS];
};

static uint64_t steps_left_out(const struct point *p)
{
    switch (p->way->adapts) {
    case ADAPT_BEST:     return CHOOSING;
    case ADAPT_SSDTRAIN: return CHOOSING_ONCE;
    default:             return UNSTEADY;
    }
}

/* ---- the memory that a way needs ---- */

/* The plan of a point's run within host_mem bytes. */
static int plan_within(struct budget *plan, const struct rok *r, const struct point *p,
                       uint64_t host_mem, struct err *err)
{
    const struct bench *b = &r->bench[p->batch];
    struct session      s = { .dir = "bench", .config = b->config };

    s.o = b->o->train;
    s.o.activations = (int)(p->way - train_activations);
    s.o.host_mem = host_mem;
    int rc = session_config(&s, err);
    rc = rc ? rc : training_plan(plan, &s, 0, err);
    session_close(&s);
    return rc;
}

/* Is there all that makes a step faster but for kept activations, and with `keep` these too? What a
 * plan buys later is a cache of parameters. */
static int enough(const struct budget *plan, const struct rok *r, const struct point *p)
{
    size_t n = r->bench->config.n_layer;

    return plan->frames >= size_min(n, 3) && plan->grad_buffers >= size_min(n, 2) &&
           (p->way != &train_activations[TRAIN_KEEP] || plan->kept == n);
}

/* The least budget with enough, to a MiB. */
static int need_find(struct rok *r, struct point *p, struct err *err)
{
    uint64_t      low = 1, high = 2;
    struct budget plan;

    for (;; high *= 2) {
        int rc = plan_within(&plan, r, p, high << 20, err);

        if (rc && !err->misuse)
            return rc;
        if (!rc && enough(&plan, r, p))
            break;
        low = high;
        if (high > (uint64_t)1 << 40)
            return err_set(err, -ENOMEM, "no --host-mem is enough for --activations %s",
                           p->way->name);
    }
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;

        if (!plan_within(&plan, r, p, middle << 20, err) && enough(&plan, r, p))
            high = middle;
        else
            low = middle;
    }
    *err = (struct err){ 0 };
    p->host_mem = (high << 20) + SLACK;
    return 0;
}

/* Whose memory a way gets. */
static const struct train_activations *needs_of(size_t way)
{
    switch (train_activations[way].adapts) {
    case ADAPT_BEST:     return &train_activations[TRAIN_OFFLOAD];
    case ADAPT_SSDTRAIN: return &train_activations[TRAIN_KEEP];
    default:             return &train_activations[way];
    }
}

static int asked(const struct bench *b, size_t way)
{
    return !b->o->ways || (b->o->ways >> way & 1);
}

static int points_make(struct rok *r, const struct bench *b, struct err *err)
{
    const struct opt_sizes *batches = &b->o->batches;
    struct budget           plan;
    int                     rc = 0;

    r->n_batches = batches->n;
    for (size_t i = 0; i < batches->n; i++) {
        r->opts[i] = *b->o;
        r->opts[i].train.batch = batches->item[i];
        r->bench[i] = *b;
        r->bench[i].o = &r->opts[i];
    }
    for (size_t w = 0; train_activations[w].name; w++)
        for (size_t i = 0; i < batches->n && asked(b, w) && !rc; i++) {
            struct point *p = &r->point[r->n++], needs = { .way = needs_of(w), .batch = i };

            rc = b->o->train.host_mem ? 0 : need_find(r, &needs, err);
            *p = (struct point){ .way = &train_activations[w], .batch = i, .host_mem =
                                 b->o->train.host_mem ? b->o->train.host_mem : needs.host_mem };
            rc = rc ? rc : plan_within(&plan, r, p, p->host_mem, err);
        }
    return rc;
}

/* ---- measuring ---- */

/* Rows of the questions below. */
static int step_row(void *ctx, int n, const char **values, const char **names)
{
    struct point *p = ctx;

    (void)n;
    (void)names;
    if (p->n < sizeof p->seconds / sizeof *p->seconds && values[0])
        p->seconds[p->n++] = strtod(values[0], NULL);
    p->peak_rss = values[1] ? strtoull(values[1], NULL, 10) : p->peak_rss;
    return 0;
}

static int item_row(void *ctx, int n, const char **values, const char **names)
{
    struct point *p = ctx;
    const char   *name = strchr(values[0], ' ');

    (void)n;
    (void)names;
    for (size_t i = 0; i < sizeof items / sizeof *items && name; i++)
        if (!strcmp(name + 1, items[i]))
            p->activations += strtoull(i == 0 && values[1] ? values[1] : values[0], NULL, 10);
    return 0;
}

static int number_row(void *ctx, int n, const char **values, const char **names)
{
    (void)n;
    (void)names;
    *(uint64_t *)ctx = values[0] ? strtoull(values[0], NULL, 10) : 0;
    return 0;
}

/* How many steps the run has. */
static int ask_steps(struct runlog *log, uint64_t *steps, struct err *err)
{
    return runlog_ask(log, number_row, steps, err, "SELECT count(*) FROM steps");
}

/* What a process left that began with step `first`, of whose steps those from `from` on count. */
static int ask_point(struct runlog *log, struct point *p, uint64_t first, uint64_t from,
                     struct err *err)
{
    uint64_t last = 0;
    int      rc = runlog_ask(log, step_row, p, err, "SELECT seconds, peak_rss FROM steps WHERE "
                                                    "step >= %" PRIu64 " ORDER BY step", from);

    p->activations = 0;
    rc = rc ? rc : runlog_ask(log, item_row, p, err,
                              "SELECT value, (SELECT kept_bytes FROM choices WHERE step >= %" PRIu64
                              " ORDER BY step DESC LIMIT 1) FROM runs WHERE key LIKE 'memory.%%'",
                              first);
    rc = rc ? rc : runlog_ask(log, number_row, &last, err, "SELECT max(step) FROM choices");
    p->late |= last >= from;
    return rc;
}

/* One more opening of the run, for a point of it. */
static int visit(struct rok *r, struct point *p, struct err *err)
{
    const struct bench *b = &r->bench[p->batch];
    struct bench_args   args = { 0 };
    struct runlog      *log = NULL;
    uint64_t            next = 0, skip = steps_left_out(p);
    char               *dir = file_path(err, "%s/batch-%zu", b->scratch, p->batch),
                       *db = dir ? file_path(err, "%s/run.db", dir) : NULL;
    int                 rc = db ? runlog_open(&log, db, 1, 0, err) : -ENOMEM;

    rc = rc ? rc : ask_steps(log, &next, err);
    runlog_close(log); // before the other process writes
    log = NULL;
    if (!rc) {
        bench_words(&args, BENCH_SELF " pretrain --quiet --activations %s --host-mem %" PRIu64
                    " --steps %" PRIu64, p->way->name, p->host_mem,
                    next + skip + b->o->train.steps);
        bench_arg(&args, "--resume=", dir);
        rc = bench_child(NULL, &args, NULL, err);
    }
    rc = rc ? rc : runlog_open(&log, db, 1, 0, err);
    rc = rc ? rc : ask_point(log, p, next, next + skip, err);
    runlog_close(log);
    free(dir);
    free(db);
    return rc;
}

static int measure(struct rok *r, struct err *err)
{
    char folder[32];
    int  rc = 0;

    for (size_t i = 0; i < r->n_batches && !rc; i++) {
        snprintf(folder, sizeof folder, "batch-%zu", i);
        rc = bench_run_make(&r->bench[i], folder, r->bench[i].o->train.mode, 0,
                            r->bench[i].o->train.speculate, err);
    }
    for (uint64_t k = 0; k < r->bench->o->rounds && !rc; k++)
        for (size_t i = 0; i < r->n && !rc; i++) // each round begins with another one
            rc = visit(r, &r->point[(i + k) % r->n], err);
    return rc;
}

/* ---- the section ---- */

static void row_add(json_t *rows, const struct rok *r, struct point *p)
{
    const struct bench *b = &r->bench[p->batch];
    double              median = bench_median(p->seconds, p->n);
    json_t             *row = json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "way", p->way->name, "batch",
        (json_int_t)b->o->train.batch, "host_mem", (json_int_t)p->host_mem, "activation_bytes",
        (json_int_t)p->activations, "peak_rss", (json_int_t)p->peak_rss, "seconds", median, "least",
        p->seconds[0], "most", p->seconds[p->n - 1], "flops_per_second",
        bench_step_flops(b) / median, "tokens_per_second",
        (double)(b->o->train.batch * b->o->train.seq * b->o->train.grad_accum) / median);
    if (p->late)
        json_object_set_new(row, "note", json_string("it was still choosing while it was measured: "
                                                     "others use the machine, or steps vary"));
    json_array_append_new(rows, row);
    const json_t *first = json_array_get(rows, p->batch); // the first way's rows come first

    bench_put(row, "bytes_of_first", json_num(row, "activation_bytes") /
                                         json_num(first, "activation_bytes") - 1);
    bench_put(row, "seconds_of_first", median / json_num(first, "seconds") - 1);
}

static int rok_run(struct bench *b, json_t *section, struct err *err)
{
    struct rok *r = calloc(1, sizeof *r);
    json_t     *rows = json_array(), *ways = json_array();
    int         rc = r ? points_make(r, b, err) : err_set(err, -ENOMEM, "out of memory");

    json_object_set_new(section, "mode", json_string(train_mode_name((size_t)b->o->train.mode)));
    json_object_set_new(section, "ways", ways);
    json_object_set_new(section, "rows", rows);
    for (size_t w = 0; train_activations[w].name; w++)
        if (asked(b, w))
            json_array_append_new(ways, json_string(train_activations[w].name));
    rc = rc ? rc : measure(r, err);
    for (size_t i = 0; !rc && i < r->n; i++)
        row_add(rows, r, &r->point[i]);
    free(r);
    return rc;
}

static int rok_check(const struct bench *b, struct err *err)
{
    struct rok *r;
    size_t      ways = 0;
    int         rc;

    while (train_activations[ways].name)
        ways++;
    assert(ways <= MOST_WAYS);
    if (b->o->train.mode == RUN_MEM)
        return err_misuse(err, "--mode mem has no devices to offload to; base, su and su+o have");
    if (b->o->batches.n > MOST_BATCHES)
        return err_misuse(err, "--batches: at most %d", MOST_BATCHES);
    if (!b->o->train.host_mem)
        return 0;
    r = calloc(1, sizeof *r);
    rc = r ? points_make(r, b, err) : err_set(err, -ENOMEM, "out of memory");
    free(r);
    return rc;
}

static void rok_print(const json_t *section)
{
    static const struct bench_column columns[] = {
        {"way", "", NULL, 0}, {"batch", "batch", "%.0f", 1},
        {"activation_bytes", "activations MB", "%.1f", 1e-6},
        {"bytes_of_first", "difference", "%+.0f %%", 100}, {"peak_rss", "RSS MB", "%.0f", 1e-6},
        {"host_mem", "host-mem MB", "%.0f", 1e-6}, {"seconds", "s a step", "%.3f", 1},
        {"least", "least", "%.3f", 1}, {"most", "most", "%.3f", 1},
        {"seconds_of_first", "difference", "%+.1f %%", 100},
        {"flops_per_second", "GFLOP/s", "%.1f", 1e-9}, {0}};

    printf("Activations' peak and rate of the model's arithmetic, mode %s\n",
           json_str(section, "mode"));
    bench_table(json_object_get(section, "rows"), columns, "way");
    printf("  differences: from %s with the same batch\n",
           json_string_value(json_array_get(json_object_get(section, "ways"), 0)));
}

const struct bench_section bench_rok = {
    .name = "rok", .run = rok_run, .print = rok_print, .check = rok_check, .defaults = defaults,
    .plot = bench_plot_rok};
