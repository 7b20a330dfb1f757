/* bench_steps.c: whole steps: computing alone, moving alone, both; what bounds them, and how near
 * they come. The letters are those of the design, in seconds. F, B: computing of forward and of
 * backward (the head in B), on devices that answer at once; B with the pass over each gradient
 * (norm, NaN check, checksum, Top-K), which the computing thread does. h: computing from the last
 * layer's output to its gradient. U: all updates, u0 those of block 0, which the next forward waits
 * for. W: reads of parameters and writes of gradients; U and W are measured one after the other,
 * without computing. w0: block 0's gradient written. A: the arithmetic of emulated updates, which
 * takes cores from the products: its seconds over the threads.
 *
 * A step takes at least u0 + max(F, U - u0) + max(B + w0, W), and with --speculate at least max(F +
 * B + w0
 * + u0, U + W + h). */
#include "cmd/bench/bench.h"

#include "data/base/round.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { VISIT = 2 }; // measured steps before another run takes its turn

enum way { TRAIN, DRIVE, DRIVE_APART };

static const struct run_kind {
    const char *name, *folder;
    int         mem, fake, speculate;
    enum way    way;
    const char *what;
} kinds[] = {
    {"mem", "mem", 1, 0, 0, TRAIN, "everything in RAM"},
    {"computing", "computing", 0, 1, 0, TRAIN, "devices that answer at once"},
    {"moving", "both", 0, 0, 0, DRIVE, "no model: what the stream moves"},
    {"moving, apart", "both", 0, 0, 0, DRIVE_APART, "the same, updates and the rest in turn"},
    {"both", "both", 0, 0, 0, TRAIN, "the run as it is"},
    {"both, --speculate", "speculate", 0, 0, 1, TRAIN, "the run with --speculate"},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- runs ---- */

static int wanted(const struct bench *b, const struct run_kind *k)
{
    int mode = b->o->train.mode;

    if (k->mem)
        return 1;
    if (mode == RUN_MEM)
        return 0;
    return !k->speculate || (mode != RUN_SU && !bench_is_block(b, 0)); // a block device holds one
                                                                         // run
}

/* Make its run, unless the one before has the same; a plan that does not fit is a note. */
static int make(struct bench *b, size_t i, json_t *row, struct err *err)
{
    const struct run_kind *k = &kinds[i];
    int                    mode = k->mem ? RUN_MEM : b->o->train.mode, rc;

    for (size_t j = 0; j < i; j++)
        if (!strcmp(kinds[j].folder, k->folder))
            return 0;
    rc = bench_run_make(b, k->folder, mode, k->fake, k->speculate, err);
    if (rc && err->misuse && k->mem) {
        json_object_set_new(row, "note", json_string(err->text));
        *err = (struct err){0};
        return 0;
    }
    return rc;
}

static int visit(struct bench *b, const struct run_kind *k, json_t *row, struct err *err)
{
    json_t *steps = json_object_get(row, "steps");

    if (json_object_get(row, "note"))
        return 0;
    if (k->way == TRAIN)
        return bench_run_train(b, k->folder, VISIT, steps, err);
    return bench_run_drive(b, k->folder, VISIT, k->way == DRIVE_APART, steps, err);
}

/* Medians of the steps, and what follows from the time of one. */
static void finish(struct bench *b, const struct run_kind *k, json_t *row)
{
    json_t *medians = bench_run_medians(json_object_get(row, "steps"));
    double  seconds = bench_number(medians, "seconds"),
           best = bench_best(b->report, b->o->train.dtype);
    double  tokens = (double)(b->o->train.batch * b->o->train.seq * b->o->train.grad_accum);

    if (k->way == DRIVE_APART) // it waits where no step does
        json_object_del(medians, "seconds");
    json_object_update(row, medians);
    json_decref(medians);
    if (k->way != TRAIN || !(seconds > 0))
        return;
    json_object_set_new(row, "tokens_per_second", json_real(tokens / seconds));
    json_object_set_new(row, "flops_per_second", json_real(bench_flops(b) / seconds));
    if (best > 0)
        json_object_set_new(row, "share_of_products", json_real(bench_flops(b) / seconds / best));
}

static int measure(struct bench *b, json_t *runs, struct err *err)
{
    const struct run_kind *used[KINDS];
    size_t                 n = 0, visits = div_up(b->o->train.steps, VISIT);
    int                    rc = 0;

    for (size_t i = 0; i < KINDS && !rc; i++)
        if (wanted(b, &kinds[i])) {
            json_array_append_new(runs, json_pack("{s:s, s:s, s:[]}", "run", kinds[i].name, "what",
                                                  kinds[i].what, "steps"));
            used[n++] = &kinds[i];
            rc = make(b, i, json_array_get(runs, n - 1), err);
        }
    for (size_t v = 0; v < visits; v++)
        for (size_t i = 0; i < n && !rc; i++)
            rc = visit(b, used[i], json_array_get(runs, i), err);
    for (size_t i = 0; i < n && !rc; i++)
        finish(b, used[i], json_array_get(runs, i));
    return rc;
}

/* ---- the bound ---- */

static double larger(double a, double b)
{
    return a > b ? a : b;
}

double bench_bound(const struct bench_figures *f, int speculate)
{
    if (speculate)
        return larger(f->F + f->B + f->A + f->w0 + f->u0, f->U + f->W + f->h);
    return f->u0 + larger(f->F + f->A, f->U - f->u0) + larger(f->B + f->w0, f->W);
}

/* Of the runs that are there. */
static struct bench_figures figures_of(const struct bench *b, const json_t *runs, double arithmetic)
{
    const json_t *computing = bench_row(runs, "run", "computing"),
                 *apart = bench_row(runs, "run", "moving, apart");
    const json_t *mem = bench_row(runs, "run", "mem"), *c = computing ? computing : mem;

    return (struct bench_figures){
        .F = bench_number(c, "forward"),
        .B = bench_number(c, "loss") + bench_number(c, "backward") + bench_number(c, "gradient"),
        .h = bench_number(c, "head"),
        .U = bench_number(apart ? apart : mem, "update"),
        .u0 = bench_number(apart, "u0"),
        .w0 = bench_number(bench_row(runs, "run", "both"), "w0"),
        .W = bench_number(apart, "moving"),
        .A = arithmetic * (double)gpt_total(&b->gpt) / (double)b->o->train.threads
    };
}

static json_t *figures_json(const struct bench_figures *f)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "F", f->F, "B", f->B, "h", f->h,
                     "U", f->U, "u0", f->u0, "w0", f->w0, "W", f->W, "A", f->A);
}

/* A run against the least time that `formula` gives. */
static void bound(json_t *bounds, const json_t *runs, const char *run, const char *formula,
                  double least)
{
    double seconds = bench_number(bench_row(runs, "run", run), "seconds");

    if (seconds > 0 && least > 0)
        json_array_append_new(bounds,
                              json_pack("{s:s, s:s, s:f, s:f, s:f, s:f}", "run", run, "bound",
                                        formula, "bound_seconds", least, "seconds", seconds,
                                        "ratio", seconds / least, "share", least / seconds));
}

static void bounds_add(const struct bench *b, json_t *bounds, const json_t *runs,
                       const struct bench_figures *f)
{
    double               best = bench_best(b->report, b->o->train.dtype);
    double               products = best > 0 ? bench_flops(b) / best : 0;
    struct bench_figures none = *f; // of the emulation's arithmetic

    none.A = 0;
    bound(bounds, runs, "mem", "model's FLOPs at the products' rate", products);
    bound(bounds, runs, "computing", "model's FLOPs at the products' rate", products);
    bound(bounds, runs, "both", "u0 + max(F, U - u0) + max(B + w0, W)", bench_bound(&none, 0));
    bound(bounds, runs, "both", "u0 + max(F + A, U - u0) + max(B + w0, W)", bench_bound(f, 0));
    bound(bounds, runs, "both, --speculate", "max(F + B + w0 + u0, U + W + h)",
          bench_bound(&none, 1));
    bound(bounds, runs, "both, --speculate", "max(F + B + A + w0 + u0, U + W + h)",
          bench_bound(f, 1));
}

int bench_steps(struct bench *b, struct err *err)
{
    json_t              *section = json_object(), *runs = json_array(), *bounds = json_array();
    struct bench_figures f;
    double               arithmetic = 0;
    int                  rc;

    json_object_set_new(b->report, "steps", section);
    json_object_set_new(section, "flops", json_real(bench_flops(b)));
    json_object_set_new(section, "flops_are",
                        json_string("6 x (12 layers x C^2 + vocab x C) x tokens + 12 x layers x C "
                                    "x seq x tokens / 2"));
    json_object_set_new(section, "products_flops_per_second",
                        json_real(bench_best(b->report, b->o->train.dtype)));
    json_object_set_new(section, "mode", json_string(train_mode_name((size_t)b->o->train.mode)));
    json_object_set_new(section, "runs", runs);
    json_object_set_new(section, "bounds", bounds);
    rc = measure(b, runs, err);
    if (!rc && b->o->train.mode != RUN_MEM)
        rc = bench_update_arithmetic(b, &arithmetic, err);
    if (rc)
        return rc;
    f = figures_of(b, runs, arithmetic);
    json_object_set_new(section, "figures", figures_json(&f));
    bounds_add(b, bounds, runs, &f);
    return 0;
}

/* ---- printing ---- */

static void print_figures(const json_t *f)
{
    static const char *const letters[] = {"F", "B", "h", "U", "u0", "w0", "W", "A"};

    printf("\n ");
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
        printf(" %s %.3f s%s", letters[i], bench_number(f, letters[i]),
               i + 1 < sizeof letters / sizeof *letters ? "," : "\n");
}

static void conclude(const json_t *section)
{
    const json_t *runs = json_object_get(section, "runs"), *mem = bench_row(runs, "run", "mem"),
                 *both;

    both = bench_row(json_object_get(section, "bounds"), "run", "both");
    if (bench_number(mem, "share_of_products") > 0)
        printf("=> mode mem makes %.0f %% of the best rate of a plain loop over the same "
               "products\n",
               100 * bench_number(mem, "share_of_products"));
    if (both)
        printf("=> mode %s takes %.2f times what its computing and its bytes take at least\n",
               bench_text(section, "mode"), bench_number(both, "ratio"));
}

void bench_steps_print(const json_t *report)
{
    static const struct bench_column runs[] = {{"run", "steps", NULL, 0},
                                               {"seconds", "seconds", "%.3f", 1},
                                               {"tokens_per_second", "tokens/s", "%.0f", 1},
                                               {"flops_per_second", "GFLOP/s", "%.0f", 1e-9},
                                               {"share_of_products", "of products", "%.0f %%", 100},
                                               {"what", "", NULL, 0},
                                               {0}};
    static const struct bench_column parts[] = {{"run", "seconds", NULL, 0},
                                                {"forward", "forward", "%.3f", 1},
                                                {"loss", "head", "%.3f", 1},
                                                {"backward", "backward", "%.3f", 1},
                                                {"gradient", "gradient", "%.3f", 1},
                                                {"update", "update", "%.3f", 1},
                                                {"commit", "commits", "%.3f", 1},
                                                {"wait_update", "wait: update", "%.3f", 1},
                                                {"wait_read", "read", "%.3f", 1},
                                                {"wait_write", "write", "%.3f", 1},
                                                {0}};
    static const struct bench_column bounds[] = {{"run", "bound", NULL, 0},
                                                 {"bound_seconds", "least", "%.3f", 1},
                                                 {"seconds", "measured", "%.3f", 1},
                                                 {"ratio", "ratio", "%.2f", 1},
                                                 {"share", "share", "%.0f %%", 100},
                                                 {"bound", "", NULL, 0},
                                                 {0}};
    const json_t                    *section = json_object_get(report, "steps"), *row;
    size_t                           i;

    printf("Steps of %.1f GFLOP: %s\n", 1e-9 * bench_number(section, "flops"),
           bench_text(section, "flops_are"));
    bench_table(json_object_get(section, "runs"), runs);
    json_array_foreach(json_object_get(section, "runs"), i, row)
        if (json_object_get(row, "note"))
            printf("  %s: %s\n", bench_text(row, "run"), bench_text(row, "note"));
    printf("\n");
    bench_table(json_object_get(section, "runs"), parts);
    if (strcmp(bench_text(section, "mode"), "mem"))
        print_figures(json_object_get(section, "figures"));
    printf("\n");
    bench_table(json_object_get(section, "bounds"), bounds);
    conclude(section);
}
