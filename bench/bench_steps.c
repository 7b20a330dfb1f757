/* bench_steps.c: measures whole steps: computing alone, moving alone, both, and how near they come
 * to their bound. The letters are those of the design, in seconds.
 *
 *     F, B  computing of forward and of backward (the head in B), on devices that answer at once;
 *           B has the pass over each gradient (norm, NaN check, checksum, Top-K) on the computing
 *           thread
 *     h     computing from the last layer's output to its gradient
 *     U     all updates; u0: those of block 0, which the next forward waits for
 *     W     reads of parameters and writes of gradients; U and W are measured one after the other,
 *           without computing; w0: block 0's gradient written
 *     A     the arithmetic of emulated updates, which takes cores from the products: its seconds
 *           divided by the number of threads
 *
 * A step takes at least u0 + max(F, U - u0) + max(B + w0, W), and with --speculate at least max(F +
 * B + w0 + u0, U + W + h). */
#include "bench/bench.h"

#include "csd/disk/disk.h"
#include "data/base/round.h"
#include "offload/estimate/step_time.h"

#include <math.h>

enum { VISIT = 2 }; // measured steps before another run has its turn

static const struct run_kind {
    const char    *name, *folder;
    int            mem, fake, speculate;
    enum bench_way way;
    const char    *what;
} kinds[] = {
    {"mem", "mem", 1, 0, 0, BENCH_TRAIN, "everything in RAM"},
    {"computing", "computing", 0, 1, 0, BENCH_TRAIN, "devices that answer at once"},
    {"moving", "both", 0, 0, 0, BENCH_DRIVE, "no model: what the stream moves"},
    {"moving, apart", "both", 0, 0, 0, BENCH_DRIVE_APART, "the same, updates and the rest in turn"},
    {"both", "both", 0, 0, 0, BENCH_TRAIN, "the run as it is"},
    {"both, --speculate", "speculate", 0, 0, 1, BENCH_TRAIN, "the run with --speculate"},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- runs ---- */

static int wanted(const struct bench *b, const struct run_kind *k)
{
    int mode = b->o->train.mode;

    if (k->mem || mode == RUN_MEM)
        return k->mem;
    // a block device holds one run
    return !k->speculate || (mode != RUN_SU && !bench_is_block(b, 0));
}

/* Makes a run, unless the one before uses the same. If its plan does not fit, a note says so. */
static int make(struct bench *b, const struct run_kind *k, json_t *row, struct err *err)
{
    if (k > kinds && !strcmp(k[-1].folder, k->folder))
        return 0;
    int rc = bench_run_make(b, k->folder, k->mem ? RUN_MEM : b->o->train.mode, k->fake,
                            k->speculate, err);
    if (!rc || !err->misuse || !k->mem)
        return rc;
    json_object_set_new(row, "note", json_string(err->text));
    *err = (struct err){0};
    return 0;
}

/* FLOP of a step's forward and backward, of products and attention, each counted once. */
static double step_flops(const struct bench *b)
{
    const struct train_opts *o = &b->o->train;

    return (double)(o->batch * o->grad_accum * o->seq) *
           arch_flops_per_token(&b->config, o->seq, train_opts_asked(o, &b->config));
}

/* The median over steps of their rate, divided by that of the loop in the same turn. */
static double share_of_products(const json_t *row, double flops)
{
    const json_t *step;
    double        share[BENCH_MOST_STEPS];
    size_t        i, n = 0;

    json_array_foreach(json_object_get(row, "steps"), i, step)
        if (n < BENCH_MOST_STEPS)
            share[n++] = flops / json_num(step, "seconds") / json_num(step, "products");
    return bench_median(share, n);
}

static void finish(struct bench *b, const struct run_kind *k, json_t *row)
{
    const struct train_opts *o = &b->o->train;
    json_t *medians = bench_run_medians(json_object_get(row, "steps"));
    double  seconds = json_num(medians, "seconds"), flops = step_flops(b),
           best = json_num(medians, "products");

    if (k->way == BENCH_DRIVE_APART) // it waits where a step does not
        json_object_del(medians, "seconds");
    json_object_update(row, medians);
    json_decref(medians);
    if (k->way != BENCH_TRAIN || !(seconds > 0))
        return;
    bench_put(row, "tokens_per_second", (double)(o->batch * o->seq * o->grad_accum) / seconds);
    bench_put(row, "flops_per_second", flops / seconds);
    if (best > 0)
        bench_put(row, "share_of_products", share_of_products(row, flops));
    bench_put(row, "share_of_unit", flops / seconds / bench_unit(b->report, o->dtype));
}

/* Measures the first device's drive with the update's mix, in turn with the runs. A block device is
 * written over, so it is measured after all runs. If drives are modelled, nothing is measured,
 * because they are slower than the real ones. */
static int measure_drive(struct bench *b, size_t visit, struct bench_item *drive, struct err *err)
{
    struct bench_place *p = NULL;
    size_t              last = div_up(b->o->train.steps, VISIT) - 1;
    struct bench_item   turn;

    struct topology_config links = train_opts_links(&b->o->train);
    int modelled = links.file || (links.read_bw.n && links.read_bw.value[0]) ||
                   (links.write_bw.n && links.write_bw.value[0]);

    if (b->o->train.mode == RUN_MEM || modelled || drive->done == BENCH_MOST_ROUNDS ||
        (bench_is_block(b, 0) && visit < last))
        return 0;
    int rc = bench_place_open(&p, b, 0, err);
    if (!rc) {
        turn = bench_place_item(p, BENCH_MIXED);
        rc = bench_rounds(&turn, 1, 3, 0, err);
        drive->figure[drive->done++] = turn.median;
    }
    bench_place_close(p);
    return rc;
}

/* Runs a turn: steps, each with a loop over its products, which shows the machine's speed. */
static int take_turn(struct bench *b, const struct run_kind *k, json_t *steps,
                     struct bench_loop *loop, struct err *err)
{
    size_t i = json_array_size(steps);
    int    rc = bench_run(b, k->folder, k->way, VISIT, steps, err);

    for (; !rc && k->way == BENCH_TRAIN && i < json_array_size(steps); i++)
        bench_put(json_array_get(steps, i), "products", bench_loop_rate(loop));
    return rc;
}

static int measure(struct bench *b, json_t *runs, struct bench_item *drive, struct err *err)
{
    json_t            *row[KINDS] = {NULL}; // NULL: not wanted
    struct bench_loop *loop;
    int                rc = bench_loop_open(&loop, b, err);

    for (size_t i = 0; i < KINDS && !rc; i++)
        if (wanted(b, &kinds[i])) {
            row[i] = json_pack("{s:s, s:s, s:[]}", "run", kinds[i].name, "what", kinds[i].what,
                               "steps");
            json_array_append_new(runs, row[i]);
            rc = make(b, &kinds[i], row[i], err);
        }
    for (size_t v = 0; v < div_up(b->o->train.steps, VISIT); v++) {
        for (size_t i = 0; i < KINDS && !rc; i++)
            if (row[i] && !json_object_get(row[i], "note"))
                rc = take_turn(b, &kinds[i], json_object_get(row[i], "steps"), loop, err);
        rc = rc ? rc : measure_drive(b, v, drive, err);
    }
    bench_loop_close(loop);
    drive->median = bench_median(drive->figure, drive->done);
    for (size_t i = 0; i < KINDS && !rc; i++)
        if (row[i])
            finish(b, &kinds[i], row[i]);
    return rc;
}

/* ---- the bound ---- */

/* The parts of a step in seconds, with the letters above. */
struct bench_figures { double F, B, h, U, u0, w0, W, A; };

/* The least time that a step takes. */
static double bench_bound(const struct bench_figures *f, int speculate)
{
    const struct step_work w = {
        .F = f->F + f->A, .B = f->B, .h = speculate ? f->h : 0, .update.drive = f->U,
        .first.drive = f->u0, .gradient.drive = f->W, .write_0.drive = f->w0,
    };
    const struct step_share all = { 1, 1 };

    return (speculate ? step_time_speculating(&w, all) : step_time(&w, all)).step;
}

static struct bench_figures figures_of(const struct bench *b, const json_t *runs, double arithmetic)
{
    const json_t *computing = json_where(runs, "run", "computing"),
                 *apart = json_where(runs, "run", "moving, apart");
    const json_t *mem = json_where(runs, "run", "mem"), *c = computing ? computing : mem;

    return (struct bench_figures){
        .F = json_num(c, "forward"),
        .B = json_num(c, "loss") + json_num(c, "backward") + json_num(c, "gradient"),
        .h = json_num(c, "head"), .U = json_num(apart ? apart : mem, "update"),
        .u0 = json_num(apart, "u0"), .w0 = json_num(json_where(runs, "run", "both"), "w0"),
        .W = json_num(apart, "moving"),
        .A = arithmetic * (double)arch_total(&b->config) / (double)b->o->train.threads,
    };
}

/* The time of a run's steps at the products' rate in the same turns. */
static double at_rate(const json_t *run)
{
    return json_num(run, "seconds") * json_num(run, "share_of_products");
}

static void bounds_add(json_t *bounds, const json_t *runs, const struct bench_figures *f)
{
    struct bench_figures none = *f; // without the emulation's arithmetic

    none.A = 0;
    const struct { const char *run, *formula; double least; } all[] = {
        {"mem", "model's FLOPs at the products' rate", at_rate(json_where(runs, "run", "mem"))},
        {"computing", "model's FLOPs at the products' rate",
         at_rate(json_where(runs, "run", "computing"))},
        {"both", "u0 + max(F, U - u0) + max(B + w0, W)", bench_bound(&none, 0)},
        {"both", "u0 + max(F + A, U - u0) + max(B + w0, W)", bench_bound(f, 0)},
        {"both, --speculate", "max(F + B + w0 + u0, U + W + h)", bench_bound(&none, 1)},
        {"both, --speculate", "max(F + B + A + w0 + u0, U + W + h)", bench_bound(f, 1)},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        double seconds = json_num(json_where(runs, "run", all[i].run), "seconds");

        if (seconds > 0 && all[i].least > 0)
            json_array_append_new(
                bounds, json_pack("{s:s, s:s, s:f, s:f, s:f, s:f}", "run", all[i].run, "bound",
                                  all[i].formula, "bound_seconds", all[i].least, "seconds", seconds,
                                  "ratio", seconds / all[i].least, "share",
                                  all[i].least / seconds));
    }
}

/* Compares a drive's speed during updates with its speed at their mix alone. */
static json_t *drives_of(const json_t *runs, double disk)
{
    json_t *rows = json_array(), *run;
    size_t  i;

    json_array_foreach(runs, i, run) {
        double rate = json_num(run, "drive_rate");

        if (rate > 0 && disk > 0)
            json_array_append_new(rows, json_pack("{s:s, s:f, s:f, s:f}", "run",
                                                  json_str(run, "run"), "bytes_per_second", rate,
                                                  "disk_bytes_per_second", disk, "share",
                                                  rate / disk));
    }
    return rows;
}

static int steps_run(struct bench *b, json_t *section, struct err *err)
{
    int     mode = b->o->train.mode;
    json_t *runs = json_array(), *bounds = json_array();
    double  best = bench_best(b->report, b->o->train.dtype),
           flops = step_flops(b), arithmetic = 0;

    json_object_set_new(section, "runs", runs);
    json_object_set_new(section, "bounds", bounds);
    struct bench_item drive = {0};
    int               rc = measure(b, runs, &drive, err);
    if (!rc && mode != RUN_MEM)
        rc = bench_update_path(b, &disk_null, &arithmetic, err);
    if (rc)
        return rc;
    struct bench_figures f = figures_of(b, runs, arithmetic);
    json_t *more = json_pack(
        "{s:f, s:s, s:f, s:s, s:{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}}", "flops", flops,
        "flops_are", "(6 x parameters in matrices + 12 x layers x heads' columns x keys seen) x "
        "tokens", "products_flops_per_second", best, "mode", train_mode_name((size_t)mode),
        "figures", "F", f.F, "B", f.B, "h", f.h, "U", f.U, "u0", f.u0, "w0", f.w0, "W", f.W, "A",
        f.A);
    json_object_update(section, more);
    json_decref(more);
    bounds_add(bounds, runs, &f);
    json_object_set_new(section, "drives", drives_of(runs, drive.median));
    return 0;
}

/* ---- printing ---- */

static void steps_print(const json_t *section)
{
    static const struct bench_column runs[] = {
        {"run", "steps", NULL, 0}, {"seconds", "seconds", "%.3f", 1},
        {"tokens_per_second", "tokens/s", "%.0f", 1}, {"flops_per_second", "GFLOP/s", "%.0f", 1e-9},
        {"share_of_products", "of products", "%.0f %%", 100},
        {"share_of_unit", "of the unit", "%.0f %%", 100}, {"what", "", NULL, 0}, {0}};
    static const struct bench_column parts[] = {
        {"run", "seconds", NULL, 0}, {"forward", "forward", "%.3f", 1}, {"loss", "head", "%.3f", 1},
        {"backward", "backward", "%.3f", 1}, {"gradient", "gradient", "%.3f", 1},
        {"update", "update", "%.3f", 1}, {"commit", "commits", "%.3f", 1},
        {"wait_update", "wait: update", "%.3f", 1}, {"wait_read", "read", "%.3f", 1},
        {"wait_write", "write", "%.3f", 1}, {0}};
    static const struct bench_column bounds[] = {
        {"run", "bound", NULL, 0}, {"bound_seconds", "least", "%.3f", 1},
        {"seconds", "measured", "%.3f", 1}, {"ratio", "ratio", "%.2f", 1},
        {"share", "share", "%.0f %%", 100}, {"bound", "", NULL, 0}, {0}};
    static const struct bench_column drives[] = {
        {"run", "a drive, MB/s", NULL, 0}, {"bytes_per_second", "while updates run", "%.0f", 1e-6},
        {"disk_bytes_per_second", "their mix alone", "%.0f", 1e-6},
        {"share", "share", "%.0f %%", 100}, {0}};
    const json_t *rows = json_object_get(section, "runs"),
                 *least = json_object_get(section, "bounds"),
                 *both = json_where(least, "run", "both");
    double share = json_num(json_where(rows, "run", "mem"), "share_of_products");
    const char *letter;
    json_t     *value;
    int         n = 0;

    printf("Steps of %.1f GFLOP: %s\n", 1e-9 * json_num(section, "flops"),
           json_str(section, "flops_are"));
    bench_table(rows, runs, "run");
    printf("\n");
    bench_table(rows, parts, NULL);
    if (strcmp(json_str(section, "mode"), "mem")) {
        printf("\n ");
        json_object_foreach(json_object_get(section, "figures"), letter, value)
            printf("%s %s %.3f s", n++ ? "," : "", letter, json_number_value(value));
        printf("\n");
    }
    printf("\n");
    bench_table(least, bounds, NULL);
    if (json_array_size(json_object_get(section, "drives"))) {
        printf("\n");
        bench_table(json_object_get(section, "drives"), drives, NULL);
    }
    if (share > 0)
        printf("=> mode mem makes %.0f %% of the rate of a plain loop over the same products, in "
               "turns with it\n", 100 * share);
    if (both)
        printf("=> mode %s takes %.2f times what its computing and its bytes take at least\n",
               json_str(section, "mode"), json_num(both, "ratio"));
}

const struct bench_section bench_steps = {
    .name = "steps", .needs = BENCH_PRODUCTS, .run = steps_run, .print = steps_print};
