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
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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
    void  *a, *b, *c, *bias, *scratch;
    size_t bytes[5];
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

static void product_run(void *ctx, size_t call)
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

/* Every pair of bytes is a bf16 between 2^-5 and 2^-4, of either sign; so is, nearly, every float.
 */
static void fill(void *bytes, size_t n)
{
    uint64_t  x = 88172645463325252u;
    uint16_t *h = bytes;

    for (size_t i = 0; i < n / 2; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        h[i] = (uint16_t)(0x3D00u | (x & 0x807Fu));
    }
}

static void *map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return NULL;
    madvise(p, bytes, MADV_HUGEPAGE);
    fill(p, bytes);
    return p;
}

static void operands_size(struct operands *x, const struct engine *e)
{
    const struct matmul_shape *s;
    enum product               which;
    size_t                     rows;

    for (size_t i = 0; e->products && (s = products_shape(e->products, i, &which, &rows)); i++) {
        x->bytes[0] = size_max(x->bytes[0], s->m * s->k * dtype_bytes(s->ab_dt));
        x->bytes[1] = size_max(x->bytes[1], s->k * s->n * dtype_bytes(s->ab_dt));
        x->bytes[2] = size_max(x->bytes[2], s->m * s->n * dtype_bytes(s->c_dt));
        x->bytes[3] = size_max(x->bytes[3], s->n * dtype_bytes(s->ab_dt));
    }
    if (e->products)
        x->bytes[4] = size_max(x->bytes[4], size_max(64, products_scratch(e->products)));
}

static int operands_open(struct operands *x, struct err *err)
{
    void **part[5] = {&x->a, &x->b, &x->c, &x->bias, &x->scratch};

    for (size_t i = 0; i < 5; i++)
        if (x->bytes[i] && !(*part[i] = map(x->bytes[i])))
            return err_set(err, -ENOMEM, "out of memory for operands of %zu bytes", x->bytes[i]);
    return 0;
}

static void operands_close(struct operands *x)
{
    void *part[5] = {x->a, x->b, x->c, x->bias, x->scratch};

    for (size_t i = 0; i < 5; i++)
        if (part[i])
            munmap(part[i], x->bytes[i]);
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
    struct products_options  p = {.gpt = b->gpt,
                                  .dtype = kind->dtype,
                                  .engine = kind->engine,
                                  .threads = (int)o->threads,
                                  .training = 1,
                                  .tokens = o->batch * o->seq,
                                  .micros = o->grad_accum};
    struct err               err = {0};

    e->kind = kind;
    if (wanted(b, kind) && products_open(&e->products, &p, &err))
        snprintf(e->why, sizeof e->why, "%s", err.text);
}

static size_t products_count(const struct products *p)
{
    enum product which;
    size_t       rows, n = 0;

    while (products_shape(p, n, &which, &rows))
        n++;
    return n;
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
        json_object_set_new(row, "note", json_string(e->why));
        return;
    }
    json_object_set_new(row, "library", json_string(matmul_describe(products_matmul(e->products))));
    for (size_t i = 0; (s = products_shape(e->products, i, &which, &rows)); i++) {
        double rate = flops_of(s) / items[i].seconds, times = times_a_step(b, which, rows, s);

        json_object_set_new(json_array_get(shapes, i), e->kind->title, json_real(rate));
        flops += times * flops_of(s);
        seconds += times * items[i].seconds;
        peak = rate > peak ? rate : peak;
    }
    json_object_set_new(row, "step_flops_per_second", json_real(flops / seconds));
    json_object_set_new(row, "step_seconds", json_real(seconds));
    json_object_set_new(row, "peak_flops_per_second", json_real(peak));
}

static json_t *shapes_of(const struct bench *b, const struct products *p)
{
    json_t                    *rows_json = json_array();
    const struct matmul_shape *s;
    enum product               which;
    size_t                     rows;

    for (size_t i = 0; (s = products_shape(p, i, &which, &rows)); i++) {
        char size[64];

        snprintf(size, sizeof size, "%zu x %zu x %zu", s->m, s->n, s->k);
        json_array_append_new(rows_json,
                              json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:f}", "product",
                                        products_name(which), "form", form_of(s), "size", size, "m",
                                        (int)s->m, "n", (int)s->n, "k", (int)s->k, "times_a_step",
                                        times_a_step(b, which, rows, s)));
    }
    return rows_json;
}

/* The items of all engines, one engine's after the other's; *each: how many one has. */
static struct bench_item *items_of(const struct engine *engines, const struct operands *x,
                                   struct product_run **runs, size_t *each, size_t *n)
{
    struct bench_item *items;

    *n = *each = 0;
    for (size_t e = 0; e < ENGINES; e++)
        *each = engines[e].products ? products_count(engines[e].products) : *each;
    items = calloc(ENGINES * *each + 1, sizeof *items);
    *runs = calloc(ENGINES * *each + 1, sizeof **runs);
    for (size_t e = 0; e < ENGINES && items && *runs; e++)
        for (size_t i = 0; engines[e].products && i < *each; i++, ++*n) {
            struct product_run        *r = &(*runs)[*n];
            const struct matmul_shape *s =
                products_shape(engines[e].products, i, &r->which, &r->rows);

            r->products = engines[e].products;
            r->operands = x;
            r->bias = s->bias;
            r->add = s->accumulate;
            items[*n] = (struct bench_item){product_run, r, 0};
        }
    return items;
}

static int measure(struct bench *b, struct engine *engines, json_t *section, struct err *err)
{
    struct operands     x = {0};
    struct product_run *runs = NULL;
    struct bench_item  *items = NULL;
    size_t              each = 0, n = 0, at = 0;
    json_t             *shapes = NULL, *rows = json_array();
    int                 rc;

    for (size_t e = 0; e < ENGINES; e++)
        operands_size(&x, &engines[e]);
    rc = operands_open(&x, err);
    if (!rc) {
        items = items_of(engines, &x, &runs, &each, &n);
        rc = items && runs ? bench_rounds(items, n, b->o->rounds, bench_least(b), err)
                           : err_set(err, -ENOMEM, "out of memory");
    }
    for (size_t e = 0; e < ENGINES && !rc; e++) {
        if (engines[e].products && !shapes)
            shapes = shapes_of(b, engines[e].products);
        if (engines[e].products || *engines[e].why)
            engine_report(b, &engines[e], items + at, shapes, rows);
        at += engines[e].products ? each : 0;
    }
    json_object_set_new(section, "shapes", shapes ? shapes : json_array());
    json_object_set_new(section, "engines", rows);
    operands_close(&x);
    free(items);
    free(runs);
    return rc;
}

int bench_products(struct bench *b, struct err *err)
{
    struct engine engines[ENGINES] = {0};
    json_t       *section = json_object(), *cores = NULL;
    int           rc;

    json_object_set_new(b->report, "products", section);
    for (size_t e = 0; e < ENGINES; e++)
        engine_open(&engines[e], b, &kinds[e]);
    rc = measure(b, engines, section, err);
    for (size_t e = 0; e < ENGINES; e++)
        products_close(engines[e].products);
    if (!rc && b->o->train.blas != MATMUL_ONEDNN)
        rc = bench_cores(b, &cores, err);
    if (cores)
        json_object_set_new(section, "openblas_cores", cores);
    return rc;
}

/* ---- what other sections go by ---- */

static double best_of(const json_t *report, const char *key, int dtype)
{
    json_t *row;
    size_t  i;
    double  best = 0;

    json_array_foreach(json_object_get(json_object_get(report, "products"), "engines"), i, row) {
        int counts = dtype == DT_BF16 || !strcmp(bench_text(row, "precision"), "fp32");

        best = counts && bench_number(row, key) > best ? bench_number(row, key) : best;
    }
    return best;
}

double bench_peak(const json_t *report, int dtype)
{
    return best_of(report, "peak_flops_per_second", dtype);
}

double bench_best(const json_t *report, int dtype)
{
    return best_of(report, "step_flops_per_second", dtype);
}

double bench_flops(const struct bench *b)
{
    const struct gpt_config *g = &b->gpt;
    double L = (double)g->n_layer, C = (double)g->n_embd, T = (double)b->o->train.seq;
    double                   tokens = (double)(b->o->train.batch * b->o->train.grad_accum) * T;

    return tokens * (6 * (12 * L * C * C + (double)g->vocab * C) + 12 * L * C * T / 2);
}

/* ---- printing ---- */

static void print_engines(const json_t *engines)
{
    static const struct bench_column columns[] = {
        { "name", "engine", NULL, 0 },
        { "step_flops_per_second", "all of a step", "%.0f", 1e-9 },
        { "step_seconds", "seconds", "%.3f", 1 },
        { "peak_flops_per_second", "best product", "%.0f", 1e-9 },
        { "library", "", NULL, 0 },
        { 0 }
    };
    const json_t                    *row;
    size_t                           i;

    printf("\n");
    bench_table(engines, columns);
    json_array_foreach(engines, i, row)
        if (json_object_get(row, "note"))
            printf("  %s: %s\n", bench_text(row, "name"), bench_text(row, "note"));
}

static void print_cores(const json_t *cores)
{
    static const struct bench_column columns[] = {{"core", "OPENBLAS_CORETYPE", NULL, 0},
                                                  {"flops_per_second", "GFLOP/s", "%.0f", 1e-9},
                                                  {"least", "least", "%.0f", 1e-9},
                                                  {"most", "most", "%.0f", 1e-9},
                                                  {"note", "", NULL, 0},
                                                  {0}};

    if (json_array_size(cores) < 2)
        return;
    printf("\n");
    bench_table(cores, columns);
}

/* Another core type is worth a word where its slowest turn beats the fastest of the one in use. */
static void conclude_cores(const json_t *cores)
{
    const json_t *best = NULL, *used = NULL, *row;
    size_t        i;

    json_array_foreach(cores, i, row) {
        used = json_is_true(json_object_get(row, "in_use")) ? row : used;
        best = bench_number(row, "flops_per_second") > bench_number(best, "flops_per_second")
                   ? row
                   : best;
    }
    if (!used || json_array_size(cores) < 2)
        return;
    if (bench_number(best, "least") > bench_number(used, "most"))
        printf("=> OPENBLAS_CORETYPE=%s in the environment makes OpenBLAS %.2f times as fast\n",
               bench_text(best, "core"),
               bench_number(best, "flops_per_second") / bench_number(used, "flops_per_second"));
    else
        printf("=> no other OPENBLAS_CORETYPE is surely faster than %s, the one in use\n",
               bench_text(used, "core"));
}

static void conclude(const json_t *section)
{
    const json_t *best = NULL, *row;
    size_t        i;

    json_array_foreach(json_object_get(section, "engines"), i, row)
        if (bench_number(row, "step_flops_per_second") > bench_number(best, "step_flops_per_"
                                                                            "second"))
            best = row;
    if (best)
        printf("=> %s makes the most of a step's products: %.0f GFLOP/s, %.3f s a step\n",
               bench_text(best, "name"), bench_number(best, "step_flops_per_second") * 1e-9,
               bench_number(best, "step_seconds"));
    conclude_cores(json_object_get(section, "openblas_cores"));
}

void bench_products_print(const json_t *report)
{
    const json_t       *section = json_object_get(report, "products"), *row;
    struct bench_column columns[ENGINES + 4] = {
        {"product", "product", NULL, 0}, {"form", "form", NULL, 0}, {"size", "m x n x k", NULL, 0}};
    size_t i, n = 3;

    json_array_foreach(json_object_get(section, "engines"), i, row)
        if (!json_object_get(row, "note"))
            columns[n++] = (struct bench_column){.key = bench_text(row, "name"),
                                                 .title = bench_text(row, "name"),
                                                 .format = "%.0f",
                                                 .scale = 1e-9};
    printf("Products of the model, GFLOP/s (bf16w: widened to fp32)\n");
    bench_table(json_object_get(section, "shapes"), columns);
    print_engines(json_object_get(section, "engines"));
    print_cores(json_object_get(section, "openblas_cores"));
    conclude(section);
}
