/* bench_products.c: a plain loop over the model's own products, by every engine in every precision
 * that it has: what a step's arithmetic could cost. A precision that an engine does not run
 * natively is named so: "bf16 widened" is fp32 with a conversion before it.
 *
 * Each product runs on operands of its own size, and as often as a step has it counts in the
 * engine's rate.
 */
#include "cmd/bench/bench.h"

#include "data/base/round.h"
#include "model/products.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ENGINES = 4 };

static const struct engine_kind {
    const char        *title; // of its column
    enum matmul_engine engine;
    enum dtype         dtype;
    const char        *precision;
} kinds[ENGINES] = {
    {"openblas fp32", MATMUL_OPENBLAS, DT_F32, "fp32"},
    {"onednn fp32", MATMUL_ONEDNN, DT_F32, "fp32"},
    {"openblas bf16w", MATMUL_OPENBLAS, DT_BF16, "bf16 widened"},
    {"onednn bf16", MATMUL_ONEDNN, DT_BF16, "bf16"},
};

struct operands {
    void        *a, *b, *c, *bias, *scratch;
    struct arena memory;
};

struct engine {
    const struct engine_kind *kind;
    struct products          *products; // NULL: it cannot run here, or was not asked for
    char                      why[1024];
};

struct product_run {
    struct products       *products;
    const struct operands *operands;
    enum product           which;
    size_t                 rows;
    int                    bias, add;
};

static void product_call(void *ctx, size_t call)
{
    const struct product_run *p = ctx;
    const struct operands    *x = p->operands;

    (void)call;
    if (p->add)
        products_add(p->products, p->which, p->rows, x->c, x->a, x->b, x->scratch);
    else
        products_run(p->products, p->which, p->rows, x->c, x->a, x->b, p->bias ? x->bias : NULL,
                     x->scratch);
}

/* ---- operands ---- */

/* As large as any product of any engine needs them. */
static void lay_operands(struct operands *x, const struct engine engines[ENGINES])
{
    const struct matmul_shape *s;
    enum product               which;
    size_t                     rows, bytes[5] = {0};

    for (const struct engine *e = engines; e < engines + ENGINES; e++) {
        for (size_t i = 0; e->products && (s = products_shape(e->products, i, &which, &rows));
             i++) {
            bytes[0] = size_max(bytes[0], s->m * s->k * dtype_bytes(s->ab_dt));
            bytes[1] = size_max(bytes[1], s->k * s->n * dtype_bytes(s->ab_dt));
            bytes[2] = size_max(bytes[2], s->m * s->n * dtype_bytes(s->c_dt));
            bytes[3] = size_max(bytes[3], s->n * dtype_bytes(s->ab_dt));
        }
        if (e->products)
            bytes[4] = size_max(bytes[4], products_scratch(e->products));
    }
    x->a = arena_take(&x->memory, bytes[0]);
    x->b = arena_take(&x->memory, bytes[1]);
    x->c = arena_take(&x->memory, bytes[2]);
    x->bias = arena_take(&x->memory, bytes[3]);
    x->scratch = arena_take(&x->memory, bytes[4]);
}

static int operands_open(struct operands *x, const struct engine engines[ENGINES], struct err *err)
{
    int rc;

    *x = (struct operands){.memory.align = ARENA_IO};
    lay_operands(x, engines);
    rc = arena_map(&x->memory, "the operands of products", err);
    if (rc)
        return rc;
    lay_operands(x, engines);
    bench_fill(x->memory.base, x->memory.bytes, 1);
    return 0;
}

/* ---- what a step has ---- */

/* How often a step runs this product: layers and micro-batches, and the chunks that tokens are cut
 * into. Of a gradient the first chunk writes, all others add. */
static double times_a_step(const struct bench *b, enum product which, size_t rows,
                           const struct matmul_shape *s)
{
    size_t tokens = b->o->train.batch * b->o->train.seq,
           chunk = products_chunk(which),
           chunks = b->o->train.grad_accum * (rows == chunk ? tokens / chunk : 1);
    int    first = rows == products_rows(tokens, chunk, 0); // the first chunk has this size

    if (s->form == MATMUL_TN && first)
        chunks = s->accumulate ? chunks - 1 : 1;
    return (double)(chunks * (which < PRODUCT_LOGITS ? b->gpt.n_layer : 1));
}

static double flops_of(const struct matmul_shape *s)
{
    return 2.0 * (double)s->m * (double)s->n * (double)s->k;
}

static const char *form_of(const struct matmul_shape *s)
{
    return s->form == MATMUL_NN   ? "A B"
           : s->form == MATMUL_NT ? "A B'"
           : s->accumulate        ? "+ A' B"
                                  : "A' B";
}

/* ---- engines ---- */

static int wanted(const struct bench *b, const struct engine_kind *k)
{
    const struct train_opts *o = &b->o->train;

    return (o->blas == MATMUL_AUTO || o->blas == (int)k->engine) &&
           (k->dtype == DT_F32 || o->dtype == DT_BF16);
}

static void engine_open(struct engine *e, const struct bench *b, const struct engine_kind *kind)
{
    const struct train_opts *o = &b->o->train;
    struct products_options  p = {
        .gpt = b->gpt, .dtype = kind->dtype, .engine = kind->engine, .threads = (int)o->threads,
        .training = 1, .tokens = o->batch * o->seq, .micros = o->grad_accum,
    };
    struct err               err = {0};

    e->kind = kind;
    if (wanted(b, kind) && products_open(&e->products, &p, &err))
        snprintf(e->why, sizeof e->why, "%s", err.text);
}

/* An engine's rows: of the table of shapes, and of the engines. */
static void engine_report(const struct bench *b, const struct engine *e,
                          const struct bench_item *items, json_t *shapes, json_t *engines)
{
    double                     flops = 0, seconds = 0, peak = 0;
    const struct matmul_shape *s;
    enum product               which;
    size_t                     rows;
    json_t                    *row = json_pack("{s:s, s:s, s:s}", "name", e->kind->title, "engine",
                                               matmul_engine_name(e->kind->engine), "precision",
                                               e->kind->precision);

    json_array_append_new(engines, row);
    if (!e->products) {
        bench_say(row, "note", e->why);
        return;
    }
    bench_say(row, "library", matmul_describe(products_matmul(e->products)));
    for (size_t i = 0; (s = products_shape(e->products, i, &which, &rows)); i++) {
        double rate = flops_of(s) / items[i].median, times = times_a_step(b, which, rows, s);

        bench_put(json_array_get(shapes, i), e->kind->title, rate);
        flops += times * flops_of(s);
        seconds += times * items[i].median;
        peak = rate > peak ? rate : peak;
    }
    bench_put(row, BENCH_BEST, flops / seconds);
    bench_put(row, "step_seconds", seconds);
    bench_put(row, BENCH_PEAK, peak);
}

/* The rows of the table of shapes, which all engines have; how many there are. */
static size_t shapes_add(const struct bench *b, const struct products *p, json_t *shapes)
{
    const struct matmul_shape *s;
    enum product               which;
    size_t                     rows, i;
    char                       size[64];

    for (i = 0; (s = products_shape(p, i, &which, &rows)); i++) {
        snprintf(size, sizeof size, "%zu x %zu x %zu", s->m, s->n, s->k);
        if (i == json_array_size(shapes))
            json_array_append_new(shapes, json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:f}",
                                                    "product", products_name(which), "form",
                                                    form_of(s), "size", size, "m", (int)s->m, "n",
                                                    (int)s->n, "k", (int)s->k, "times_a_step",
                                                    times_a_step(b, which, rows, s)));
    }
    return i;
}

static int engines_measure(struct bench *b, struct engine engines[ENGINES], json_t *shapes,
                           json_t *rows, struct err *err)
{
    struct operands     x;
    struct product_run *runs;
    struct bench_item  *items;
    size_t              n = 0, each = 0;
    int                 rc = operands_open(&x, engines, err);

    for (size_t e = 0; e < ENGINES; e++)
        if (engines[e].products)
            each = shapes_add(b, engines[e].products, shapes);
    items = calloc(ENGINES * each + 1, sizeof *items);
    runs = calloc(ENGINES * each + 1, sizeof *runs);
    if (!rc && (!items || !runs))
        rc = err_set(err, -ENOMEM, "out of memory");
    for (size_t e = 0; e < ENGINES && !rc; e++)
        for (size_t i = 0; engines[e].products && i < each; i++, n++) {
            const struct matmul_shape *s =
                products_shape(engines[e].products, i, &runs[n].which, &runs[n].rows);

            runs[n].products = engines[e].products;
            runs[n].operands = &x;
            runs[n].bias = s->bias;
            runs[n].add = s->accumulate;
            items[n] = (struct bench_item){.run = product_call, .ctx = &runs[n]};
        }
    if (!rc)
        rc = bench_rounds(items, n, b->o->rounds, bench_seconds(b), err);
    n = 0;
    for (size_t e = 0; e < ENGINES && !rc; e++) {
        if (engines[e].products || *engines[e].why)
            engine_report(b, &engines[e], items + n, shapes, rows);
        n += engines[e].products ? each : 0;
    }
    arena_free(&x.memory);
    free(items);
    free(runs);
    return rc;
}

static int products_measure(struct bench *b, json_t *section, struct err *err)
{
    struct engine engines[ENGINES] = {0};
    json_t       *shapes = json_array(), *rows = json_array(), *cores = json_array();
    int           rc;

    json_object_set_new(section, "shapes", shapes);
    json_object_set_new(section, "engines", rows);
    for (size_t e = 0; e < ENGINES; e++)
        engine_open(&engines[e], b, &kinds[e]);
    rc = engines_measure(b, engines, shapes, rows, err);
    for (size_t e = 0; e < ENGINES; e++)
        products_close(engines[e].products);
    if (!rc && b->o->train.blas != MATMUL_ONEDNN)
        rc = bench_cores(b, section, cores, err);
    json_object_set_new(section, "openblas_cores", cores);
    return rc;
}

double bench_engines(const json_t *report, const char *key, int dtype)
{
    json_t *row;
    size_t  i;
    double  best = 0;

    json_array_foreach(json_object_get(json_object_get(report, "products"), "engines"), i, row)
        if (dtype == DT_BF16 || !strcmp(bench_text(row, "precision"), "fp32"))
            best = fmax(best, bench_number(row, key));
    return best;
}

/* ---- printing ---- */

static void conclude(const json_t *engines)
{
    const json_t *best = NULL, *row;
    size_t        i;

    json_array_foreach(engines, i, row)
        if (bench_number(row, BENCH_BEST) > bench_number(best, BENCH_BEST))
            best = row;
    if (best)
        printf("=> %s makes the most of a step's products: %.0f GFLOP/s, %.3f s a step\n",
               bench_text(best, "name"), bench_number(best, BENCH_BEST) * 1e-9,
               bench_number(best, "step_seconds"));
}

static void products_print(const json_t *section)
{
    static const struct bench_column of_engines[] = {
        {"name", "engine", NULL, 0},
        {BENCH_BEST, "all of a step", "%.0f", 1e-9},
        {"step_seconds", "seconds", "%.3f", 1},
        {BENCH_PEAK, "best product", "%.0f", 1e-9},
        {"library", "", NULL, 0},
        {0}};
    const json_t *engines = json_object_get(section, "engines"), *row,
                 *cores = json_object_get(section, "openblas_cores");
    struct bench_column columns[ENGINES + 4] = {
        {"product", "product", NULL, 0}, {"form", "form", NULL, 0}, {"size", "m x n x k", NULL, 0}};
    size_t i, n = 3;

    json_array_foreach(engines, i, row)
        if (!json_object_get(row, "note"))
            columns[n++] = (struct bench_column){bench_text(row, "name"), bench_text(row, "name"),
                                                 "%.0f", 1e-9};
    printf("Products of the model, GFLOP/s (bf16w: widened to fp32)\n");
    bench_table(json_object_get(section, "shapes"), columns, NULL);
    printf("\n");
    bench_table(engines, of_engines, "name");
    bench_cores_print(cores);
    conclude(engines);
    bench_cores_conclude(cores);
}

const struct bench_section bench_products = {"products", 0, {NULL}, products_measure,
                                             products_print};
