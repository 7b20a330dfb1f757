/* bench_kernels.c: every kernel at the model's sizes, as a share of what bounds it: the bytes that
 * it must move over the bandwidth that bench_memory.c measured, or its arithmetic over the best
 * product (bench_products.c), whichever takes longer.
 *
 * A kernel function is called twice: dry, to add up what it takes and does, then on memory. Each
 * call gets memory that the one before did not have, so that it comes from RAM and not from a
 * cache; in a step some of it comes from a cache, and a kernel is then faster than here. Operations
 * are counted once each (an exp is 20), so the arithmetic bound is a little low. */
#include "cmd/bench/bench.h"

#include "data/base/crc32c.h"
#include "data/base/round.h"
#include "kernels/attention.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/gelu.h"
#include "kernels/layernorm.h"
#include "kernels/optim.h"
#include "kernels/reduce.h"
#include "kernels/rng.h"
#include "kernels/softmax.h"
#include "kernels/topk.h"
#include "model/products.h"

#include <errno.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { UPDATE_PARAMS = 1 << 16, TABLE_ROWS = 8192, FLOPS_EXP = 20 };

struct sizes {
    size_t     B, T, C, H, V, N;  // N: tokens of a chunk
    size_t     n, bt, btc;        // N * C, B * T, B * T * C
    size_t     logit_rows, layer; // layer: parameters of one
    size_t     e;                 // bytes of a dt
    double     compress;
    enum dtype dt;
    int        threads;
    int32_t   *tokens, *targets; // (B, T)
};

/* A kernel's memory, taken piece by piece from `at`; dry: NULL. */
struct call {
    char  *at;
    size_t taken;
    double reads, writes, flops;
    int    one_thread;
    char   size[48];
};

static void *take(struct call *c, size_t bytes, int reads, int writes)
{
    void *p = c->at ? c->at + c->taken : NULL;

    c->taken += round_up(bytes, 4096);
    c->reads += reads ? (double)bytes : 0;
    c->writes += writes ? (double)bytes : 0;
    return p;
}

static void *in(struct call *c, size_t bytes) { return take(c, bytes, 1, 0); }
static void *out(struct call *c, size_t bytes) { return take(c, bytes, 0, 1); }
static void *both(struct call *c, size_t bytes) { return take(c, bytes, 1, 1); }
static void *work(struct call *c, size_t bytes) { return take(c, bytes, 0, 0); } // in a cache

/* What it does; 1 on a dry call, which ends here. */
static int dry(struct call *c, double flops, size_t rows, size_t columns)
{
    c->flops = flops;
    snprintf(c->size, sizeof c->size, columns ? "%zu x %zu" : "%zu", rows, columns);
    return c->at == NULL;
}

/* ---- the kernels ---- */

/* stats: in or out. */
static struct layernorm norm_of(const struct sizes *s, struct call *c,
                                void *(*stats)(struct call *, size_t))
{
    return (struct layernorm){s->N, s->C, s->dt, in(c, 4 * s->n), in(c, s->e * s->C),
                              in(c, s->e * s->C), stats(c, 4 * s->N), stats(c, 4 * s->N), 1e-5f};
}

static void do_layernorm_forward(const struct sizes *s, struct call *c)
{
    struct layernorm l = norm_of(s, c, out);
    void            *y = out(c, s->e * s->n);

    if (!dry(c, 8 * (double)s->n, s->N, s->C))
        layernorm_forward(y, &l);
}

static void do_layernorm_residual(const struct sizes *s, struct call *c)
{
    struct layernorm l = norm_of(s, c, out);
    float           *x = l.x, *y = in(c, 4 * s->n), *sum = out(c, 4 * s->n);
    void            *normed = out(c, s->e * s->n);

    l.x = sum;
    if (!dry(c, 9 * (double)s->n, s->N, s->C))
        layernorm_residual(normed, x, y, &l);
}

static void do_layernorm_apply(const struct sizes *s, struct call *c)
{
    struct layernorm l = norm_of(s, c, in);
    void            *y = out(c, s->e * s->n);

    if (!dry(c, 4 * (double)s->n, s->N, s->C))
        layernorm_apply(y, &l);
}

static void do_layernorm_backward(const struct sizes *s, struct call *c)
{
    struct layernorm l = norm_of(s, c, in);
    float *dx = both(c, 4 * s->n), *dy = in(c, 4 * s->n);
    float *dw = both(c, 4 * s->C), *db = both(c, 4 * s->C);
    void  *scratch = work(c, colsum_scratch(s->N, 2 * s->C));

    c->reads -= (double)(s->e * s->C); // the bias is not needed
    if (!dry(c, 15 * (double)s->n, s->N, s->C))
        layernorm_backward(dx, dw, db, dy, &l, scratch);
}

static void do_gelu_forward(const struct sizes *s, struct call *c)
{
    size_t n = 4 * s->n;
    void  *x = in(c, s->e * n), *y = out(c, s->e * n);

    if (!dry(c, (FLOPS_EXP + 10) * (double)n, s->N, 4 * s->C))
        gelu_forward(y, x, s->dt, n);
}

/* The value once more, its gradient and the sums for the bias. */
static void do_gelu_backward(const struct sizes *s, struct call *c)
{
    size_t               n = 4 * s->n, C = 4 * s->C;
    struct gelu_backward g = {.n = s->N, .C = C, .dt = s->dt, .x = in(c, s->e * n),
                              .dout = in(c, 4 * n), .out = out(c, s->e * n),
                              .dx = out(c, s->e * n), .db = both(c, 4 * C),
                              .scratch = work(c, colsum_scratch(s->N, C))};

    if (!dry(c, (FLOPS_EXP + 20) * (double)n, s->N, C))
        gelu_backward(&g);
}

static void do_softmax(const struct sizes *s, struct call *c)
{
    size_t              n = s->logit_rows * s->V;
    struct softmax_xent x = {.n = s->logit_rows, .V = s->V, .logits = in(c, 4 * n),
                             .split = products_split(s->V, s->dt), .targets = s->targets,
                             .losses = out(c, 4 * s->logit_rows), .dlogits = out(c, s->e * n),
                             .dt = s->dt, .scale = 1e-3f};

    if (!dry(c, (FLOPS_EXP + 5) * (double)n, s->logit_rows, s->V))
        softmax_xent(&x);
}

/* made: in or out. */
static struct attention attention_of(const struct sizes *s, struct call *c,
                                     void *(*made)(struct call *, size_t))
{
    return (struct attention){.B = s->B, .T = s->T, .C = s->C, .H = s->H, .dt = s->dt,
                              .qkv = in(c, 3 * s->e * s->btc), .out = made(c, s->e * s->btc),
                              .lse = made(c, 4 * s->B * s->H * s->T),
                              .scratch = work(c, attention_scratch(s->T, s->C, s->H, s->threads))};
}

static void do_attention_forward(const struct sizes *s, struct call *c)
{
    struct attention a = attention_of(s, c, out);

    if (!dry(c, 2 * (double)s->btc * (double)s->T, s->bt, s->C))
        attention_forward(&a);
}

static void do_attention_backward(const struct sizes *s, struct call *c)
{
    struct attention a = attention_of(s, c, in);
    void            *dqkv = out(c, 3 * s->e * s->btc), *dy = in(c, s->e * s->btc);

    if (!dry(c, 5 * (double)s->btc * (double)s->T, s->bt, s->C))
        attention_backward(dqkv, dy, &a);
}

static void do_residual(const struct sizes *s, struct call *c)
{
    float *a = in(c, 4 * s->n), *b = in(c, 4 * s->n), *y = out(c, 4 * s->n);

    if (!dry(c, (double)s->n, s->N, s->C))
        residual_add(y, a, b, s->n);
}

static void do_convert(const struct sizes *s, struct call *c)
{
    void *x = in(c, 4 * s->n), *y = out(c, 2 * s->n);

    if (!dry(c, 0, s->N, s->C))
        convert(y, DT_BF16, x, DT_F32, s->n);
}

static void do_colsum(const struct sizes *s, struct call *c)
{
    void  *dy = in(c, s->e * 3 * s->n), *scratch = work(c, colsum_scratch(s->N, 3 * s->C));
    float *db = both(c, 4 * 3 * s->C);

    if (!dry(c, 3 * (double)s->n, s->N, 3 * s->C))
        colsum_add(db, dy, s->dt, s->N, 3 * s->C, scratch);
}

static void do_colsum_narrow(const struct sizes *s, struct call *c)
{
    float *dy = in(c, 4 * s->n), *db = both(c, 4 * s->C);
    void  *y = out(c, 2 * s->n), *scratch = work(c, colsum_scratch(s->N, s->C));

    if (!dry(c, (double)s->n, s->N, s->C))
        colsum_narrow(db, y, dy, s->N, s->C, scratch);
}

static void do_dropout(const struct sizes *s, struct call *c)
{
    struct dropout d = {.p = 0.1f, .seed = 1, .site = 1};
    float         *x = in(c, 4 * s->n), *y = out(c, 4 * s->n);

    if (!dry(c, 0, s->N, s->C))
        dropout_rows(y, x, s->N, s->C, 0, &d);
}

/* Tokens are of the first TABLE_ROWS words: a whole table would not change what is moved. */
static void do_embedding_forward(const struct sizes *s, struct call *c)
{
    void  *wte = work(c, s->e * TABLE_ROWS * s->C), *wpe = in(c, s->e * s->T * s->C);
    float *y = out(c, 4 * s->btc);

    c->reads += (double)(s->e * s->btc);
    if (!dry(c, (double)s->btc, s->bt, s->C))
        embedding_forward(y, wte, wpe, s->dt, s->tokens, s->B, s->T, s->C);
}

static void do_embedding_backward(const struct sizes *s, struct call *c)
{
    float *dwte = work(c, 4 * TABLE_ROWS * s->C), *dwpe = both(c, 4 * s->T * s->C);
    float *dy = in(c, 4 * s->btc);

    c->reads += (double)(4 * s->btc);
    c->writes += (double)(4 * s->btc);
    if (!dry(c, 2 * (double)s->btc, s->bt, s->C))
        embedding_backward(dwte, dwpe, dy, s->tokens, s->B, s->T, s->C);
}

static void do_update(const struct sizes *s, struct call *c)
{
    size_t n = UPDATE_PARAMS;
    float *w = both(c, 4 * n), *m = both(c, 4 * n), *v = both(c, 4 * n), *g = in(c, 4 * n);
    struct optim_step step;

    (void)s;
    c->one_thread = 1;
    if (dry(c, 16 * (double)n, n, 0))
        return;
    optim_scalars(&step, OPTIM_ADAMW, 1e-4, 0.9, 0.999, 1e-8, 1, 10);
    optim_update(w, m, v, g, n, 0.01f, &step);
}

static void do_sumsq(const struct sizes *s, struct call *c)
{
    float *x = in(c, 4 * s->layer);
    void  *scratch = work(c, reduce_scratch(s->layer));
    int    nonfinite = 0;

    if (!dry(c, 2 * (double)s->layer, s->layer, 0))
        reduce_sumsq(x, s->layer, &nonfinite, scratch);
}

static void do_topk(const struct sizes *s, struct call *c)
{
    size_t            k = topk_count(s->layer, s->compress);
    float            *x = in(c, 4 * s->layer);
    struct topk_pair *pairs = out(c, sizeof *pairs * k);
    void             *scratch = work(c, topk_scratch(s->layer, k));

    if (!dry(c, 0, s->layer, 0))
        topk_select(pairs, x, s->layer, k, scratch);
}

static volatile uint32_t crc_sink; // a pure function whose result nobody wants would not be called

static void do_crc(const struct sizes *s, struct call *c)
{
    size_t bytes = 4 * (size_t)UPDATE_PARAMS;
    void  *x = in(c, bytes);

    (void)s;
    c->one_thread = 1;
    if (!dry(c, 0, bytes, 0))
        crc_sink = crc32c(0, x, bytes);
}

static const struct kernel {
    const char *name;
    void (*call)(const struct sizes *s, struct call *c);
    int products; // its arithmetic is products: their peak in the run's dtype
    int normal;   // on values as a gradient has them; else on such as cannot overflow in any kernel
} kernels[] = {
    {"layernorm forward", do_layernorm_forward, 0, 0},
    {"residual and layernorm", do_layernorm_residual, 0, 0},
    {"layernorm apply", do_layernorm_apply, 0, 0},
    {"layernorm backward", do_layernorm_backward, 0, 0},
    {"gelu forward", do_gelu_forward, 0, 0},
    {"gelu backward and sums", do_gelu_backward, 0, 0},
    {"attention forward", do_attention_forward, 1, 0},
    {"attention backward", do_attention_backward, 1, 0},
    {"softmax, loss and gradient", do_softmax, 0, 0},
    {"residual", do_residual, 0, 0},
    {"convert to bf16", do_convert, 0, 0},
    {"sum of columns", do_colsum, 0, 0},
    {"sum of columns, rounding", do_colsum_narrow, 0, 0},
    {"dropout", do_dropout, 0, 0},
    {"embedding forward", do_embedding_forward, 0, 0},
    {"embedding backward", do_embedding_backward, 0, 0},
    {"AdamW", do_update, 0, 0},
    {"sum of squares", do_sumsq, 0, 1},
    {"Top-K", do_topk, 0, 1},
    {"CRC32C", do_crc, 0, 0},
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

/* ---- running them ---- */

struct kernel_run {
    const struct kernel *kernel;
    const struct sizes  *sizes;
    const struct arena  *memory;
    size_t               each;
};

static void kernel_call(void *ctx, size_t call)
{
    const struct kernel_run *r = ctx;
    struct call c = {.at = r->memory->base + call % (r->memory->bytes / r->each) * r->each};

    r->kernel->call(r->sizes, &c);
}

/* Twice the last cache, or twice what a kernel takes, where that is more. */
static int memory_open(struct arena *a, const struct bench *b, const struct sizes *s,
                       struct err *err)
{
    long   cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    size_t bytes = (size_t)(b->o->quick ? 64 : 256) << 20;

    if (cache > 0 && cache <= 512 << 20)
        bytes = size_max(bytes, 2 * (size_t)cache);
    for (size_t i = 0; i < KERNELS; i++) {
        struct call c = {0};

        kernels[i].call(s, &c);
        bytes = size_max(bytes, 2 * c.taken);
    }
    arena_take(a, bytes);
    return arena_map(a, "the operands of kernels", err);
}

/* What a call must take at least, and what says so. */
static double kernel_bound(const struct bench *b, const struct kernel *k, const struct call *c,
                           const char **bound)
{
    double bandwidth = bench_bandwidth(b->report, !c->one_thread, c->writes > 0.01 * c->reads);
    double peak = bench_engines(b->report, BENCH_PEAK, k->products ? b->o->train.dtype : DT_F32) /
                  (c->one_thread ? (double)b->o->train.threads : 1);
    double moving = (c->reads + c->writes) / bandwidth, computing = peak > 0 ? c->flops / peak : 0;

    *bound = moving > computing ? "memory" : "arithmetic";
    return moving > computing ? moving : computing;
}

static int kernel_measure(struct bench *b, const struct kernel *k, const struct sizes *s,
                          const struct arena *memory, json_t *rows, struct err *err)
{
    struct call       c = {0};
    struct kernel_run run = {k, s, memory, 0};
    struct bench_item item = {.run = kernel_call, .ctx = &run};
    const char       *bound;
    double            least, bytes;
    int               rc;

    k->call(s, &c);
    run.each = c.taken;
    bytes = c.reads + c.writes;
    if (k->normal)
        rng_normal((float *)(void *)memory->base, memory->bytes / 4, 1, 1, 0, 0);
    else
        bench_fill(memory->base, memory->bytes, 0);
    rc = bench_rounds(&item, 1, b->o->rounds, bench_seconds(b) / 2, err);
    if (rc)
        return rc;
    least = kernel_bound(b, k, &c, &bound);
    json_array_append_new(
        rows, json_pack("{s:s, s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:s, s:f, s:f}", "kernel",
                        k->name, "size", c.size, "threads", c.one_thread ? 1 : s->threads,
                        "seconds", item.median, "bytes", bytes, "bytes_per_second",
                        bytes / item.median, "flops", c.flops, "flops_per_second",
                        c.flops / item.median, "bound", bound, "bound_seconds", least, "share",
                        least / item.median));
    return 0;
}

static int sizes_open(struct sizes *s, const struct bench *b, struct err *err)
{
    const struct train_opts *o = &b->o->train;
    size_t                   C = b->gpt.n_embd, tokens = o->batch * o->seq;
    size_t                   chunk = size_min(tokens, CHUNK_ROWS);

    *s = (struct sizes){.B = o->batch, .T = o->seq, .C = C, .H = b->gpt.n_head, .V = b->gpt.vocab,
                        .N = chunk, .n = chunk * C, .bt = tokens, .btc = tokens * C,
                        .logit_rows = size_min(tokens, LOGIT_ROWS),
                        .layer = gpt_block_size(&b->gpt, 1),
                        .compress = o->compress > 0 ? o->compress : TRAIN_COMPRESS,
                        .dt = (enum dtype)o->dtype, .e = dtype_bytes((enum dtype)o->dtype),
                        .threads = (int)o->threads};
    s->tokens = malloc(sizeof *s->tokens * tokens);
    s->targets = malloc(sizeof *s->targets * tokens);
    if (!s->tokens || !s->targets)
        return err_set(err, -ENOMEM, "out of memory for %zu tokens", tokens);
    for (size_t i = 0; i < tokens; i++) {
        s->tokens[i] = (int32_t)((i * 2654435761u) % size_min(s->V, TABLE_ROWS));
        s->targets[i] = (int32_t)((i * 40503u) % s->V);
    }
    return 0;
}

static int kernels_run(struct bench *b, json_t *rows, struct err *err)
{
    struct sizes s = {0};
    struct arena memory = {0};
    int          rc = sizes_open(&s, b, err);

    omp_set_num_threads((int)b->o->train.threads);
    if (!rc)
        rc = memory_open(&memory, b, &s, err);
    for (size_t i = 0; i < KERNELS && !rc; i++)
        rc = kernel_measure(b, &kernels[i], &s, &memory, rows, err);
    arena_free(&memory);
    free(s.tokens);
    free(s.targets);
    return rc;
}

/* ---- printing ---- */

static int by_share(const void *a, const void *b)
{
    double x = bench_number(*(json_t *const *)a, "share"),
           y = bench_number(*(json_t *const *)b, "share");

    return (x > y) - (x < y);
}

static void kernels_print(const json_t *rows)
{
    static const struct bench_column columns[] = {{"kernel", "kernel", NULL, 0},
                                                  {"size", "size", NULL, 0},
                                                  {"threads", "threads", "%.0f", 1},
                                                  {"seconds", "us", "%.1f", 1e6},
                                                  {"bytes_per_second", "GB/s", "%.1f", 1e-9},
                                                  {"flops_per_second", "GFLOP/s", "%.1f", 1e-9},
                                                  {"share", "share", "%.0f %%", 100},
                                                  {"bound", "of its bound", NULL, 0},
                                                  {0}};
    json_t *row, *sorted[KERNELS];
    size_t  i, n = 0;

    printf("Kernels, each against the time that memory or arithmetic takes at least\n");
    bench_table(rows, columns, NULL);
    json_array_foreach(rows, i, row)
        sorted[n++] = row;
    qsort(sorted, n, sizeof *sorted, by_share);
    printf("=> furthest from its bound:");
    for (i = 0; i < 3 && i < n; i++)
        printf("%s %s %.0f %%", i ? "," : "", bench_text(sorted[i], "kernel"),
               100 * bench_number(sorted[i], "share"));
    printf("\n");
}

const struct bench_section bench_kernels = {
    "kernels", 1, {&bench_products, &bench_memory}, kernels_run, kernels_print};
