/* bench_parts.c: where a step of mode mem goes. Nothing in a step is timed for this: what the
 * products (bench_products.c) and the kernels (bench_kernels.c) take by themselves, times how often
 * a step has them, is laid beside the measured step (bench_steps.c), and what is left over is said.
 * Products are timed on operands that are in cache where they fit, kernels on such as come from
 * memory: in a step products are slower and kernels faster.
 *
 * And how often a step starts all threads, with what a start costs: between two loops the threads
 * spin for a moment, then sleep (main.c), and who finds them asleep has to wake them. */
#include "bench/bench.h"
#include "bench/bench_passes.h"

#include "data/base/clock.h"
#include "model/products.h"

#include <assert.h>
#include <omp.h>

/* Layers that have a window, or have none. */
static size_t layers_of(const struct model_config *g, int window)
{
    size_t n = 0;

    for (size_t layer = 1; layer <= g->n_layer; layer++)
        n += !arch_window(g, layer) == !window;
    return n;
}

/* Of the kernel's row, which has its size. */
static double calls_of(const struct bench *b, const struct pass *p, const json_t *row)
{
    const struct train_opts   *o = &b->o->train;
    const struct model_config *g = &b->config;
    double micros = (double)o->grad_accum, L = (double)g->n_layer, n = p->each,
           tokens = micros * (double)(o->batch * o->seq), rows = json_num(row, "rows");

    switch (p->unit) {
    case PASS_CHUNK: return (n * L + p->behind) * tokens / rows;
    case PASS_LAYER: return n * (double)layers_of(g, 0) * micros;
    case PASS_WINDOW: return n * (double)layers_of(g, 1) * micros;
    case PASS_BATCH: return n * micros;
    case PASS_LOGITS: return n * tokens * train_opts_asked(o, g) / rows * (double)arch_pieces(g);
    case PASS_PARAMS: return n * (double)arch_total(g) / rows;
    }
    return 0;
}

/* How often its calls start all threads: once each, if they do; the norm and the update go over all
 * of a block's, or of the model's. */
static double starts_of(const struct bench *b, const struct pass *p, const json_t *row,
                        double calls)
{
    if (p->unit != PASS_PARAMS)
        return json_num(row, "threads") > 1 ? calls : 0;
    return !strcmp(p->kernel, "sum of squares") ? (double)arch_blocks(&b->config) : 1;
}

static void part_add(json_t *rows, const char *name, double calls, double seconds, double least,
                     double starts)
{
    json_t *row = bench_row(rows, "part", name);

    if (!row) {
        row = json_pack("{s:s}", "part", name);
        json_array_append_new(rows, row);
    }
    bench_put(row, "calls", json_num(row, "calls") + calls);
    bench_put(row, "seconds", json_num(row, "seconds") + seconds);
    bench_put(row, "least", json_num(row, "least") + least);
    bench_put(row, "starts", json_num(row, "starts") + starts);
    if (least > 0)
        bench_put(row, "bound_share", json_num(row, "least") / json_num(row, "seconds"));
}

/* The engine that makes the most of a step in this precision, as `auto` takes it. */
static const json_t *engine_of(const struct bench *b)
{
    const json_t *engines = json_object_get(json_object_get(b->report, "products"), "engines"),
                 *row, *best = NULL;
    size_t i;

    json_array_foreach(engines, i, row)
        if ((b->o->train.dtype == DT_BF16) == !strncmp(json_str(row, "precision"), "bf16", 4) &&
            json_num(row, BENCH_BEST) > json_num(best, BENCH_BEST))
            best = row;
    return best;
}

/* oneDNN starts threads once for a product, once for what it packs before (matmul_onednn.c), which
 * of a layer's parameters is once for all its chunks, and the logits are two products
 * (products.h). */
static double product_starts(const struct bench *b, const json_t *shape, double calls)
{
    int two = strstr(json_str(shape, "form"), "A' B") || strstr(json_str(shape, "product"),
                                                                "logits");

    if (two)
        return b->o->train.dtype == DT_BF16 ? 2 * calls : calls;
    return json_is_true(json_object_get(shape, "packed")) ? calls + (double)b->config.n_layer
                                                          : calls;
}

static void products_add_parts(const struct bench *b, json_t *rows)
{
    const json_t *products = json_object_get(b->report, "products"), *engine = engine_of(b);
    const char   *column = json_str(engine, "name");
    double        peak = json_num(engine, BENCH_PEAK);
    json_t       *shape;
    size_t        i;

    json_array_foreach(json_object_get(products, "shapes"), i, shape) {
        double rate = json_num(shape, column), calls = json_num(shape, "times_a_step"),
               flops = 2 * json_num(shape, "m") * json_num(shape, "n") * json_num(shape, "k");

        if (rate > 0)
            part_add(rows, json_str(shape, "product"), calls, calls * flops / rate,
                     calls * flops / peak, product_starts(b, shape, calls));
    }
}

/* ---- what a start costs ---- */

static volatile int sink;

/* The median time of an empty parallel region after `pause_ns` of work by one thread. */
static double start_seconds(uint64_t pause_ns)
{
    enum { STARTS = 201 };
    double took[STARTS];

    for (size_t i = 0; i < STARTS; i++) {
        uint64_t begin_ns = clock_ns();

        while (clock_ns() - begin_ns < pause_ns)
            ;
        begin_ns = clock_ns();
#pragma omp parallel
        sink = omp_get_thread_num();
        took[i] = (double)(clock_ns() - begin_ns) * 1e-9;
    }
    return bench_median(took, STARTS);
}

/* ---- the section ---- */

static double sum_of(const json_t *rows, const char *key)
{
    const json_t *row;
    double        sum = 0;
    size_t        i;

    json_array_foreach(rows, i, row)
        sum += json_num(row, key);
    return sum;
}

static int parts_run(struct bench *b, json_t *section, struct err *err)
{
    const json_t *kernels = json_object_get(b->report, "kernels");
    json_t       *rows = json_array(), *row;
    double        step = json_num(bench_row(json_object_get(json_object_get(b->report, "steps"),
                                                            "runs"), "run", "mem"), "seconds");
    struct pass   p;
    size_t        i;

    (void)err;
    json_object_set_new(section, "rows", rows);
    products_add_parts(b, rows);
    for (i = 0; (p = passes_at(&b->config, (enum dtype)b->o->train.dtype, i)).kernel; i++) {
        const json_t *k = bench_row(kernels, "kernel", p.kernel);
        double        calls = calls_of(b, &p, k);

        assert(k);
        if (calls > 0)
            part_add(rows, p.kernel, calls, calls * json_num(k, "seconds"),
                     calls * json_num(k, "bound_seconds"), starts_of(b, &p, k, calls));
    }
    omp_set_num_threads((int)b->o->train.threads);
    bench_put(section, "awake_seconds", start_seconds(0));
    bench_put(section, "asleep_seconds", start_seconds(3000000));
    bench_put(section, "starts", sum_of(rows, "starts"));
    bench_put(section, "parts_seconds", sum_of(rows, "seconds"));
    bench_put(section, "step_seconds", step);
    bench_put(section, "rest_seconds", step - json_num(section, "parts_seconds"));
    if (step > 0)
        part_add(rows, "not accounted for", 0, json_num(section, "rest_seconds"), 0, 0);
    json_array_foreach(rows, i, row)
        bench_put(row, "share", json_num(row, "seconds") / sum_of(rows, "seconds"));
    return 0;
}

static void parts_print(const json_t *section)
{
    static const struct bench_column columns[] = {
        {"part", "part", NULL, 0}, {"calls", "calls", "%.0f", 1},
        {"seconds", "seconds", "%.4f", 1}, {"share", "of a step", "%.1f %%", 100},
        {"bound_share", "of its bound", "%.0f %%", 100}, {"starts", "starts", "%.0f", 1}, {0}};
    double starts = json_num(section, "starts"), awake = json_num(section, "awake_seconds"),
           asleep = json_num(section, "asleep_seconds");

    printf("Parts of a step of mode mem, each measured by itself\n");
    bench_table(json_object_get(section, "rows"), columns, NULL);
    printf("=> the parts take %.3f s, a step %.3f\n", json_num(section, "parts_seconds"),
           json_num(section, "step_seconds"));
    printf("=> %.0f starts of all threads: %.1f us where they spin (%.4f s a step), %.1f us where "
           "they sleep (%.4f)\n", starts, 1e6 * awake, starts * awake, 1e6 * asleep,
           starts * asleep);
}

const struct bench_section bench_parts = {
    .name = "parts", .needs = BENCH_PRODUCTS | BENCH_MEMORY | BENCH_KERNELS | BENCH_STEPS,
    .run = parts_run, .print = parts_print};
