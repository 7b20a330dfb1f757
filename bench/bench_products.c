/* bench_products.c: runs the model's own products in a plain loop, with every engine in every
 * precision that it has, to measure what a step's arithmetic could cost. A precision that an engine
 * does not run natively is named so: "bf16 widened" is fp32 after a conversion.
 *
 * Each product has operands of its own size. In the engine's rate it counts as often as a step runs
 * it. Shares are of the unit: the rate at which the CPU multiplies blocks whose operands lie in L2
 * (block_rate.h), measured in the same turns. */
#include "bench/bench.h"

#include "data/base/clock.h"
#include "data/base/round.h"
#include "kernels/product/block_rate.h"
#include "kernels/tiled.h"
#include "model/layer/products.h"
#include "run/sources/masking.h"

#include <assert.h>
#include <math.h>
#include <omp.h>

/* Each product has a whole chunk and a rest; gradients are written or added to. */
enum { ENGINES = 6, MOST_PRODUCTS = 4 * PRODUCTS + 1, UNITS = 2 };

static const struct engine_kind {
    const char        *title; // title of its column
    enum matmul_engine engine;
    enum dtype         dtype;
    const char        *precision;
} kinds[ENGINES] = {
    {"openblas fp32", MATMUL_OPENBLAS, DT_F32, "fp32"},
    {"onednn fp32", MATMUL_ONEDNN, DT_F32, "fp32"},
    {"openblas bf16w", MATMUL_OPENBLAS, DT_BF16, "bf16 widened"},
    {"onednn bf16", MATMUL_ONEDNN, DT_BF16, "bf16"},
    {"sitrain fp32", MATMUL_SITRAIN, DT_F32, "fp32"},
    {"sitrain bf16", MATMUL_SITRAIN, DT_BF16, "bf16"},
};

struct operands { void *a, *b, *c, *bias, *scratch, *unit; };

struct engine {
    const struct engine_kind *kind;
    struct products          *products; // NULL: it cannot run here, or is not asked for
    struct err                why;      // why products is NULL
    size_t                    n; // number of its products
};

/* One product by one engine. */
struct product_run {
    struct products           *products;
    const struct matmul_shape *s;
    const struct operands     *operands;
    size_t                     which, rows;
};

static void product_call(void *ctx, size_t call)
{
    const struct product_run *p = ctx;
    const struct operands    *x = p->operands;

    (void)call;
    if (p->s->accumulate)
        products_add(p->products, p->which, p->rows, x->c, x->a, x->b, x->scratch);
    else
        products_run(p->products, p->which, p->rows, x->c, x->a, x->b,
                     p->s->bias ? x->bias : NULL, x->scratch);
}

/* Lays out operands as large as any product of any engine needs. */
static void lay_operands(struct arena *memory, struct operands *x, const struct product_run *runs,
                         size_t n)
{
    size_t a = 0, b = 0, c = 0, bias = 0, scratch = 0;

    for (const struct product_run *r = runs; r < runs + n; r++) {
        a = size_max(a, tiled_size(r->s->m, r->s->k) * dtype_bytes(r->s->ab_dt)); // either way
        b = size_max(b, r->s->k * r->s->n * dtype_bytes(r->s->ab_dt));
        c = size_max(c, r->s->m * r->s->n * dtype_bytes(r->s->c_dt));
        bias = size_max(bias, r->s->n * dtype_bytes(r->s->ab_dt));
        scratch = size_max(scratch, r->products->scratch_bytes);
    }
    *x = (struct operands){arena_take(memory, a), arena_take(memory, b), arena_take(memory, c),
                           arena_take(memory, bias), arena_take(memory, scratch),
                           arena_take(memory, block_rate_l2())};
}

static int operands_map(struct arena *memory, struct operands *x, struct product_run *runs,
                        size_t n, struct err *err)
{
    lay_operands(memory, x, runs, n);
    int rc = arena_map(memory, "the operands of products", err);
    if (rc)
        return rc;
    lay_operands(memory, x, runs, n);
    bench_fill(memory->base, memory->bytes, 1);
    for (size_t i = 0; i < n; i++)
        runs[i].operands = x;
    return 0;
}

/* ---- the unit: what the CPU's instructions give from L2 ---- */

struct unit {
    const struct block_form *form;
    const char              *precision;
    void                    *operands;
    uint64_t                 ns; // of a turn
};

static int unit_measure(void *ctx, double *figure, struct err *err)
{
    const struct unit *u = ctx;

    (void)err;
    *figure = block_rate(u->form, u->operands, block_rate_l2(), u->form->cuts.ahead, u->ns);
    return 0;
}

/* The unit of fp32 and, if this run and this CPU multiply bf16, that of bf16. */
static size_t units_of(struct unit units[UNITS], const struct bench *b, void *operands)
{
    const uint64_t           ns = (uint64_t)(b->seconds * 1e9);
    const struct block_form *narrow = block_form_of(DT_BF16);

    units[0] = (struct unit){block_form_of(DT_F32), "fp32", operands, ns};
    if (b->o->train.dtype != DT_BF16 || narrow->dt != DT_BF16)
        return 1;
    units[1] = (struct unit){narrow, "bf16", operands, ns};
    return 2;
}

double bench_unit(const json_t *report, int dtype)
{
    const json_t *units = json_object_get(json_object_get(report, "products"), "units"),
                 *narrow = dtype == DT_BF16 ? json_where(units, "precision", "bf16") : NULL;

    return json_num(narrow ? narrow : json_where(units, "precision", "fp32"), "flops_per_second");
}

/* ---- how often a step runs a product ---- */

/* How often a micro-batch runs products of this kind: once per layer or per piece of the head's
 * words. If there are several pieces, their logits are computed twice. */
static size_t times_a_micro(const struct bench *b, size_t which)
{
    size_t pieces = arch_pieces(&b->config), matrix = products_matrix(which);
    size_t heads = matrix == ARCH_HEAD && pieces > 1 ? pieces - 1 : 1;

    if (matrix < ARCH_HEAD)
        return b->config.n_layer;
    return pieces > 1 && products_kind(which) == PRODUCT_FORWARD ? 2 * heads : heads;
}

/* This model, in a format and by an engine. Chunks are those of a run, for all engines. */
static struct model_options model_of(const struct bench *b, enum dtype dt,
                                     enum matmul_engine engine)
{
    const struct train_opts *o = &b->o->train;
    struct model_options     m = {
        .config = b->config, .dtype = (enum dtype)o->dtype, .engine = (enum matmul_engine)o->blas,
        .threads = (int)o->threads, .training = 1, .batch = o->batch, .seq = o->seq,
        .grad_accum = o->grad_accum,
    };

    m.doubled = products_doubles(&m);
    m.dtype = dt;
    m.engine = engine;
    return m;
}

/* Rows of a micro-batch that go through a product, and the unit by which they are cut (products.h).
 * For a masked head, these are the masked tokens. */
static size_t rows_through(const struct bench *b, size_t which, size_t *unit)
{
    const struct train_opts *o = &b->o->train;
    struct model_options     p = { .config = b->config, .batch = o->batch, .seq = o->seq };
    int head = products_matrix(which) >= ARCH_HEAD, masked = head && arch_is_masked(&b->config);

    *unit = head ? products_head_unit(&p) : 0;
    return masked ? round_up(o->batch * masking_chosen(o->mask.prob, o->seq), *unit)
                  : o->batch * o->seq;
}

/* How often a step runs this product: for all layers, micro-batches and chunks of tokens. The first
 * chunk writes a gradient, and all others add to it. */
static double times_a_step(const struct bench *b, const struct product_run *r)
{
    struct model_options m = model_of(b, DT_F32, MATMUL_AUTO);
    size_t chunk = products_chunk(&m, r->which), unit, chunks = 0,
           rows = rows_through(b, r->which, &unit),
           first = r->rows == products_rows(rows, chunk, unit); // the first chunk has this size

    for (size_t n; rows > 0; rows -= n)
        chunks += (n = products_rows(rows, chunk, unit)) == r->rows;
    chunks *= b->o->train.grad_accum;
    if (r->s->form == MATMUL_TN)
        chunks = r->s->accumulate ? chunks - first : first;
    return (double)(chunks * times_a_micro(b, r->which));
}

static double flops_of(const struct matmul_shape *s)
{
    return 2.0 * (double)s->m * (double)s->n * (double)s->k;
}

static json_t *shape_row(const struct bench *b, const struct product_run *r)
{
    static const char *const forms[] = {
        [MATMUL_NN] = "A B", [MATMUL_NT] = "A B'", [MATMUL_TN] = "A' B"};
    char size[64];

    snprintf(size, sizeof size, "%zu x %zu x %zu", r->s->m, r->s->n, r->s->k);
    return json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:f, s:b}", "product",
                     products_name(&b->config, r->which), "form",
                     r->s->accumulate ? "+ A' B" : forms[r->s->form], "size", size, "m",
                     (int)r->s->m, "n", (int)r->s->n, "k", (int)r->s->k, "times_a_step",
                     times_a_step(b, r), "packed", r->s->pack_b);
}

/* ---- engines ---- */

/* Opens an engine if it is wanted, and lists its products in runs. Returns how many there are. */
static size_t engine_open(struct engine *e, const struct bench *b, const struct engine_kind *kind,
                          struct product_run *runs)
{
    const struct train_opts *o = &b->o->train;
    struct model_options     p = model_of(b, kind->dtype, kind->engine);
    size_t bytes;

    e->kind = kind;
    p.config.n_labels = 0; // includes the products of a head
    if ((o->blas != MATMUL_AUTO && o->blas != (int)kind->engine) ||
        (kind->dtype != DT_F32 && o->dtype != DT_BF16))
        return 0;
    // memory.c packs a head's words where the products are in tiles and there is room
    if (o->mode == RUN_MEM && products_scratch(&bytes, &p.packs_head, &p, &e->why))
        return 0;
    if (products_open(&e->products, &p, &e->why))
        return 0;
    for (size_t i = 0; i < e->products->n; i++) {
        struct product_run *r = &runs[e->n];

        assert(e->n < MOST_PRODUCTS);
        r->products = e->products;
        r->s = &e->products->shape[i];
        r->which = e->products->key[i].which;
        r->rows = e->products->key[i].rows;
        e->n += times_a_step(b, r) > 0;
    }
    return e->n;
}

static void engine_report(const struct bench *b, const struct engine *e,
                          const struct product_run *runs, const struct bench_item *items,
                          json_t *shapes, json_t *engines)
{
    double  flops = 0, seconds = 0,
           unit = bench_unit(b->report, strcmp(e->kind->precision, "bf16") ? DT_F32 : DT_BF16);
    json_t *row = json_pack("{s:s, s:s, s:s}", "name", e->kind->title, "engine",
                            matmul_engine_name(e->kind->engine), "precision", e->kind->precision);

    json_array_append_new(engines, row);
    if (!e->products) {
        json_object_set_new(row, "note", json_string(e->why.text));
        return;
    }
    for (size_t i = 0; i < e->n; i++) {
        double one = flops_of(runs[i].s), times = times_a_step(b, &runs[i]),
               rate = one / items[i].median;

        if (i == json_array_size(shapes))
            json_array_append_new(shapes, shape_row(b, &runs[i]));
        json_t *shape = json_array_get(shapes, i);
        bench_put(shape, e->kind->title, rate);
        bench_put(shape, "share", fmax(json_num(shape, "share"),
                                       rate / bench_unit(b->report, b->o->train.dtype)));
        flops += times * one;
        seconds += times * items[i].median;
    }
    json_object_set_new(row, "library", json_string(e->products->matmul->describe));
    bench_put(row, BENCH_BEST, flops / seconds);
    bench_put(row, "step_seconds", seconds);
    bench_put(row, "share", flops / seconds / unit);
}

/* ---- the section ---- */

static int products_measure(struct bench *b, json_t *section, struct err *err)
{
    struct engine      engines[ENGINES] = {0};
    struct product_run runs[ENGINES * MOST_PRODUCTS];
    struct bench_item  items[ENGINES * MOST_PRODUCTS + UNITS];
    struct unit        units[UNITS];
    struct operands    x;
    struct arena       memory = {.align = ARENA_IO};
    json_t            *shapes = json_array(), *rows = json_array(), *of_units = json_array();
    size_t             n = 0, n_units;

    json_object_set_new(section, "shapes", shapes);
    json_object_set_new(section, "engines", rows);
    json_object_set_new(section, "units", of_units);
    for (size_t e = 0; e < ENGINES; e++)
        n += engine_open(&engines[e], b, &kinds[e], &runs[n]);
    int rc = operands_map(&memory, &x, runs, n, err);
    for (size_t i = 0; i < n; i++)
        items[i] = (struct bench_item){.run = product_call, .ctx = &runs[i]};
    n_units = units_of(units, b, x.unit);
    for (size_t i = 0; i < n_units; i++)
        items[n + i] = (struct bench_item){.measure = unit_measure, .ctx = &units[i]};
    omp_set_num_threads((int)b->o->train.threads);
    rc = rc ? rc : bench_rounds(items, n + n_units, b->o->rounds, b->seconds, err);
    for (size_t i = 0; i < n_units && !rc; i++)
        json_array_append_new(
            of_units, json_pack("{s:s, s:s, s:f}", "name", units[i].form->name, "precision",
                                units[i].precision, "flops_per_second", items[n + i].median));
    n = 0;
    for (size_t e = 0; e < ENGINES; n += engines[e++].n) {
        if (!rc && (engines[e].products || *engines[e].why.text))
            engine_report(b, &engines[e], runs + n, items + n, shapes, rows);
        products_close(engines[e].products);
    }
    arena_free(&memory);
    return rc;
}

/* ---- products in turn with steps ---- */

struct bench_loop {
    const struct bench *bench;
    struct engine       engine;
    struct product_run  runs[MOST_PRODUCTS];
    struct operands     operands;
    struct arena        memory;
};

int bench_loop_open(struct bench_loop **out, const struct bench *b, struct err *err)
{
    const json_t      *engines = json_object_get(json_object_get(b->report, "products"), "engines");
    double             best = bench_best(b->report, b->o->train.dtype);
    struct bench_loop *l = *out = calloc(1, sizeof *l);

    if (!l)
        return err_set(err, -ENOMEM, "out of memory for a loop over products");
    l->bench = b;
    l->memory.align = ARENA_IO;
    for (size_t k = 0; k < ENGINES && !l->engine.products; k++)
        if (json_num(json_where(engines, "name", kinds[k].title), BENCH_BEST) >= best)
            engine_open(&l->engine, b, &kinds[k], l->runs);
    if (!l->engine.products)
        return err_set(err, -EIO, "no engine of products is left: %s", l->engine.why.text);
    int rc = operands_map(&l->memory, &l->operands, l->runs, l->engine.n, err);
    if (!rc)
        bench_loop_rate(l); // the first is slower
    return rc;
}

double bench_loop_rate(struct bench_loop *l)
{
    uint64_t start_ns = clock_ns();
    double   flops = 0;

    for (size_t i = 0; i < l->engine.n; i++) {
        double times = times_a_step(l->bench, &l->runs[i]);

        flops += times * flops_of(l->runs[i].s);
        for (size_t call = 0; (double)call < times; call++)
            product_call(&l->runs[i], call);
    }
    return flops * 1e9 / (double)(clock_ns() - start_ns);
}

void bench_loop_close(struct bench_loop *l)
{
    if (!l)
        return;
    products_close(l->engine.products);
    arena_free(&l->memory);
    free(l);
}

double bench_best(const json_t *report, int dtype)
{
    json_t *row;
    size_t  i;
    double  best = 0;

    json_array_foreach(json_object_get(json_object_get(report, "products"), "engines"), i, row)
        if (dtype == DT_BF16 || !strcmp(json_str(row, "precision"), "fp32"))
            best = fmax(best, json_num(row, BENCH_BEST));
    return best;
}

/* ---- printing ---- */

static void products_print(const json_t *section)
{
    static const struct bench_column of_engines[] = {
        {"name", "engine", NULL, 0}, {BENCH_BEST, "all of a step", "%.0f", 1e-9},
        {"step_seconds", "seconds", "%.3f", 1}, {"share", "of the unit", "%.0f %%", 100},
        {"library", "", NULL, 0}, {0}};
    static const struct bench_column of_units[] = {
        {"name", "unit", NULL, 0}, {"precision", "precision", NULL, 0},
        {"flops_per_second", "from L2", "%.0f", 1e-9}, {0}};
    const json_t *engines = json_object_get(section, "engines"), *row,
                 *best = bench_largest(engines, BENCH_BEST);
    struct bench_column columns[ENGINES + 5] = {
        {"product", "product", NULL, 0}, {"form", "form", NULL, 0}, {"size", "m x n x k", NULL, 0}};
    size_t i, n = 3;

    json_array_foreach(engines, i, row)
        if (!json_object_get(row, "note"))
            columns[n++] = (struct bench_column){json_str(row, "name"), json_str(row, "name"),
                                                 "%.0f", 1e-9};
    columns[n] = (struct bench_column){"share", "of the unit", "%.0f %%", 100};
    printf("Products of the model, GFLOP/s (bf16w: widened to fp32)\n");
    bench_table(json_object_get(section, "shapes"), columns, NULL);
    printf("\n");
    bench_table(engines, of_engines, "name");
    printf("\n");
    bench_table(json_object_get(section, "units"), of_units, NULL);
    if (best)
        printf("=> %s makes the most of a step's products: %.0f GFLOP/s, %.3f s a step, %.0f %% of "
               "the unit\n", json_str(best, "name"), json_num(best, BENCH_BEST) * 1e-9,
               json_num(best, "step_seconds"), 100 * json_num(best, "share"));
}

const struct bench_section bench_products = {
    .name = "products", .run = products_measure, .print = products_print};
