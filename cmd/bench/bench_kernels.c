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
#include <sys/mman.h>
#include <unistd.h>

enum { UPDATE_PARAMS = 1 << 16, TABLE_ROWS = 8192, FLOPS_EXP = 20 };

struct sizes {
    size_t     B, T, C, H, V, N; // N: tokens of a chunk
    size_t     logit_rows, layer; // layer: parameters of one
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

static void *in(struct call *c, size_t bytes)
{
    return take(c, bytes, 1, 0);
}

static void *out(struct call *c, size_t bytes)
{
    return take(c, bytes, 0, 1);
}

static void *both(struct call *c, size_t bytes)
{
    return take(c, bytes, 1, 1);
}

/* Stays in a cache, or could. */
static void *work(struct call *c, size_t bytes)
{
    return take(c, bytes, 0, 0);
}

/* What it does; 1 on a dry call, which ends here. */
static int dry(struct call *c, double flops, size_t rows, size_t columns)
{
    c->flops = flops;
    if (columns)
        snprintf(c->size, sizeof c->size, "%zu x %zu", rows, columns);
    else
        snprintf(c->size, sizeof c->size, "%zu", rows);
    return c->at == NULL;
}

/* ---- the kernels ---- */

static void do_layernorm_forward(const struct sizes *s, struct call *c)
{
    size_t e = dtype_bytes(s->dt);
    float *x = in(c, 4 * s->N * s->C), *mean = out(c, 4 * s->N), *rstd = out(c, 4 * s->N);
    void  *w = in(c, e * s->C), *b = in(c, e * s->C), *y = out(c, e * s->N * s->C);

    if (!dry(c, 8 * (double)(s->N * s->C), s->N, s->C))
        layernorm_forward(y, &(struct layernorm){ s->N, s->C, s->dt, x, w, b, mean, rstd, 1e-5f });
}

static void do_layernorm_residual(const struct sizes *s, struct call *c)
{
    size_t e = dtype_bytes(s->dt), n = s->N * s->C;
    float *x = in(c, 4 * n), *y = in(c, 4 * n), *sum = out(c, 4 * n);
    float *mean = out(c, 4 * s->N), *rstd = out(c, 4 * s->N);
    void  *w = in(c, e * s->C), *b = in(c, e * s->C), *normed = out(c, e * n);
    struct layernorm l = { s->N, s->C, s->dt, sum, w, b, mean, rstd, 1e-5f };

    if (!dry(c, 9 * (double)n, s->N, s->C))
        layernorm_residual(normed, x, y, &l);
}

static void do_layernorm_apply(const struct sizes *s, struct call *c)
{
    size_t e = dtype_bytes(s->dt);
    float *x = in(c, 4 * s->N * s->C), *mean = in(c, 4 * s->N), *rstd = in(c, 4 * s->N);
    void  *w = in(c, e * s->C), *b = in(c, e * s->C), *y = out(c, e * s->N * s->C);

    if (!dry(c, 4 * (double)(s->N * s->C), s->N, s->C))
        layernorm_apply(y, &(struct layernorm){ s->N, s->C, s->dt, x, w, b, mean, rstd, 0 });
}

static void do_layernorm_backward(const struct sizes *s, struct call *c)
{
    float *dx = both(c, 4 * s->N * s->C), *dy = in(c, 4 * s->N * s->C), *x = in(c, 4 * s->N * s->C);
    float *dw = both(c, 4 * s->C), *db = both(c, 4 * s->C), *mean = in(c, 4 * s->N),
          *rstd = in(c, 4 * s->N);
    void  *w = in(c, dtype_bytes(s->dt) * s->C), *scratch = work(c, colsum_scratch(s->N, 2 * s->C));
    struct layernorm l = { s->N, s->C, s->dt, x, w, NULL, mean, rstd, 0 };

    if (!dry(c, 15 * (double)(s->N * s->C), s->N, s->C))
        layernorm_backward(dx, dw, db, dy, &l, scratch);
}

static void do_gelu_forward(const struct sizes *s, struct call *c)
{
    size_t n = s->N * 4 * s->C;
    void  *x = in(c, dtype_bytes(s->dt) * n), *y = out(c, dtype_bytes(s->dt) * n);

    if (!dry(c, (FLOPS_EXP + 10) * (double)n, s->N, 4 * s->C))
        gelu_forward(y, x, s->dt, n);
}

/* The value once more, its gradient and the sums for the bias. */
static void do_gelu_backward(const struct sizes *s, struct call *c)
{
    size_t n = s->N * 4 * s->C, e = dtype_bytes(s->dt);
    void  *x = in(c, e * n), *y = out(c, e * n), *dx = out(c, e * n);
    float *dy = in(c, 4 * n), *db = both(c, 4 * 4 * s->C);
    void  *scratch = work(c, colsum_scratch(s->N, 4 * s->C));

    if (!dry(c, (FLOPS_EXP + 20) * (double)n, s->N, 4 * s->C))
        gelu_backward(&(struct gelu_backward){
            .n = s->N, .C = 4 * s->C, .dt = s->dt, .x = x, .dout = dy, .out = y, .dx = dx, .db = db,
            .scratch = scratch });
}

static void do_softmax(const struct sizes *s, struct call *c)
{
    size_t n = s->logit_rows * s->V;
    float *logits = in(c, 4 * n), *losses = out(c, 4 * s->logit_rows);
    void  *dlogits = out(c, dtype_bytes(s->dt) * n);

    if (!dry(c, (FLOPS_EXP + 5) * (double)n, s->logit_rows, s->V))
        softmax_xent(&(struct softmax_xent){
            .n = s->logit_rows, .V = s->V, .logits = logits, .split = products_split(s->V, s->dt),
            .targets = s->targets, .losses = losses, .dlogits = dlogits, .dt = s->dt,
            .scale = 1e-3f });
}

static struct attention attention_of(const struct sizes *s, void *qkv, void *out, float *lse,
                                     void *scratch)
{
    return (struct attention){ .B = s->B, .T = s->T, .C = s->C, .H = s->H, .dt = s->dt, .qkv = qkv,
                               .out = out, .lse = lse, .scratch = scratch };
}

static void do_attention_forward(const struct sizes *s, struct call *c)
{
    size_t e = dtype_bytes(s->dt), n = s->B * s->T * s->C;
    void  *qkv = in(c, 3 * e * n), *y = out(c, e * n),
         *scratch = work(c, attention_scratch(s->T, s->C, s->H, s->threads));
    float *lse = out(c, 4 * s->B * s->H * s->T);
    struct attention a = attention_of(s, qkv, y, lse, scratch);

    if (!dry(c, 2 * (double)n * (double)s->T, s->B * s->T, s->C))
        attention_forward(&a);
}

static void do_attention_backward(const struct sizes *s, struct call *c)
{
    size_t e = dtype_bytes(s->dt), n = s->B * s->T * s->C;
    void  *dqkv = out(c, 3 * e * n), *dy = in(c, e * n), *y = in(c, e * n), *qkv = in(c, 3 * e * n);
    void  *scratch = work(c, attention_scratch(s->T, s->C, s->H, s->threads));
    float *lse = in(c, 4 * s->B * s->H * s->T);
    struct attention a = attention_of(s, qkv, y, lse, scratch);

    if (!dry(c, 5 * (double)n * (double)s->T, s->B * s->T, s->C))
        attention_backward(dqkv, dy, &a);
}

static void do_residual(const struct sizes *s, struct call *c)
{
    size_t n = s->N * s->C;
    float *a = in(c, 4 * n), *b = in(c, 4 * n), *y = out(c, 4 * n);

    if (!dry(c, (double)n, s->N, s->C))
        residual_add(y, a, b, n);
}

static void do_convert(const struct sizes *s, struct call *c)
{
    size_t n = s->N * s->C;
    float *x = in(c, 4 * n);
    void  *y = out(c, 2 * n);

    if (!dry(c, 0, s->N, s->C))
        convert(y, DT_BF16, x, DT_F32, n);
}

static void do_colsum(const struct sizes *s, struct call *c)
{
    size_t n = s->N * s->C;
    void  *dy = in(c, dtype_bytes(s->dt) * 3 * n),
         *scratch = work(c, colsum_scratch(s->N, 3 * s->C));
    float *db = both(c, 4 * 3 * s->C);

    if (!dry(c, 3 * (double)n, s->N, 3 * s->C))
        colsum_add(db, dy, s->dt, s->N, 3 * s->C, scratch);
}

static void do_colsum_narrow(const struct sizes *s, struct call *c)
{
    size_t n = s->N * s->C;
    float *dy = in(c, 4 * n), *db = both(c, 4 * s->C);
    bf16  *y = out(c, 2 * n);
    void  *scratch = work(c, colsum_scratch(s->N, s->C));

    if (!dry(c, (double)n, s->N, s->C))
        colsum_narrow(db, y, dy, s->N, s->C, scratch);
}

static void do_dropout(const struct sizes *s, struct call *c)
{
    struct dropout d = {.p = 0.1f, .seed = 1, .site = 1};
    float         *x = in(c, 4 * s->N * s->C), *y = out(c, 4 * s->N * s->C);

    if (!dry(c, 0, s->N, s->C))
        dropout_rows(y, x, s->N, s->C, 0, &d);
}

/* Tokens are of the first TABLE_ROWS words: a whole table would not change what is moved. */
static void do_embedding_forward(const struct sizes *s, struct call *c)
{
    size_t e = dtype_bytes(s->dt), n = s->B * s->T * s->C;
    void  *wte = work(c, e * TABLE_ROWS * s->C), *wpe = in(c, e * s->T * s->C);
    float *y = out(c, 4 * n);

    c->reads += (double)(e * n);
    if (!dry(c, (double)n, s->B * s->T, s->C))
        embedding_forward(y, wte, wpe, s->dt, s->tokens, s->B, s->T, s->C);
}

static void do_embedding_backward(const struct sizes *s, struct call *c)
{
    size_t n = s->B * s->T * s->C;
    float *dwte = work(c, 4 * TABLE_ROWS * s->C), *dwpe = both(c, 4 * s->T * s->C),
          *dy = in(c, 4 * n);

    c->reads += (double)(4 * n);
    c->writes += (double)(4 * n);
    if (!dry(c, 2 * (double)n, s->B * s->T, s->C))
        embedding_backward(dwte, dwpe, dy, s->tokens, s->B, s->T, s->C);
}

static void do_update(const struct sizes *s, struct call *c)
{
    size_t            n = UPDATE_PARAMS;
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

struct memory {
    char  *at;
    size_t bytes;
};

struct kernel_run {
    const struct kernel *kernel;
    const struct sizes  *sizes;
    const struct memory  *arena;
    size_t               each;
};

static void kernel_run(void *ctx, size_t call)
{
    const struct kernel_run *r = ctx;
    struct call c = { .at = r->arena->at + call % (r->arena->bytes / r->each) * r->each };

    r->kernel->call(r->sizes, &c);
}

/* Where not normal: positive, between 2^-5 and 2^-4, taken as bf16 or as float; nothing overflows,
 * nothing is subnormal. */
static void arena_fill(const struct memory *a, int normal)
{
    uint32_t *x = (uint32_t *)(void *)a->at;
    size_t    n = a->bytes / 4;

    if (normal) {
        rng_normal((float *)(void *)a->at, n, 1, 1, 0, 0);
        return;
    }
#pragma omp parallel for
    for (size_t i = 0; i < n; i++)
        x[i] = 0x3D003D00u | ((uint32_t)(i * 2654435761u) & 0x007F007Fu);
}

static int arena_open(struct memory *a, const struct bench *b, size_t most, struct err *err)
{
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);

    a->bytes = (size_t)(b->o->quick ? 64 : 256) << 20;
    if (cache > 0 && a->bytes < 2 * (size_t)cache && cache <= 512 << 20)
        a->bytes = 2 * (size_t)cache;
    a->bytes = a->bytes < 2 * most ? 2 * most : a->bytes;
    a->at = mmap(NULL, a->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (a->at == MAP_FAILED)
        return err_set(err, -ENOMEM, "out of memory for %zu bytes to run kernels on", a->bytes);
    madvise(a->at, a->bytes, MADV_HUGEPAGE);
    return 0;
}

/* What a call must take at least, and what says so. */
static void kernel_bound(const struct bench *b, const struct kernel *k, const struct call *c,
                         double *seconds, const char **bound)
{
    double bandwidth = bench_bandwidth(b->report, !c->one_thread, c->writes > 0.01 * c->reads);
    double peak = bench_peak(b->report, k->products ? b->o->train.dtype : DT_F32) /
                  (c->one_thread ? (double)b->o->train.threads : 1);
    double moving = (c->reads + c->writes) / bandwidth, computing = peak > 0 ? c->flops / peak : 0;

    *seconds = moving > computing ? moving : computing;
    *bound = moving > computing ? "memory" : "arithmetic";
}

static int kernel_measure(struct bench *b, const struct kernel *k, const struct sizes *s,
                          const struct memory *a, json_t *rows, struct err *err)
{
    struct call       c = {0};
    struct kernel_run run = {k, s, a, 0};
    struct bench_item item = {kernel_run, &run, 0};
    const char       *bound;
    double            least;
    int               rc;

    k->call(s, &c);
    run.each = c.taken;
    arena_fill(a, k->normal);
    rc = bench_rounds(&item, 1, b->o->rounds, bench_least(b) / 2, err);
    if (rc)
        return rc;
    kernel_bound(b, k, &c, &least, &bound);
    json_array_append_new(rows,
                          json_pack("{s:s, s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:s, s:f, s:f}",
                                    "kernel", k->name, "size", c.size, "threads",
                                    c.one_thread ? 1 : s->threads, "seconds", item.seconds, "bytes",
                                    c.reads + c.writes, "bytes_per_second",
                                    (c.reads + c.writes) / item.seconds, "flops", c.flops,
                                    "flops_per_second", c.flops / item.seconds, "bound", bound,
                                    "bound_seconds", least, "share", least / item.seconds));
    return 0;
}

static int sizes_open(struct sizes *s, const struct bench *b, struct err *err)
{
    const struct train_opts *o = &b->o->train;
    size_t                   tokens = o->batch * o->seq;

    *s = (struct sizes){.B = o->batch,
                        .T = o->seq,
                        .C = b->gpt.n_embd,
                        .H = b->gpt.n_head,
                        .V = b->gpt.vocab,
                        .N = tokens < CHUNK_ROWS ? tokens : CHUNK_ROWS,
                        .logit_rows = tokens < LOGIT_ROWS ? tokens : LOGIT_ROWS,
                        .layer = gpt_block_size(&b->gpt, 1),
                        .compress = o->compress > 0 ? o->compress : TRAIN_COMPRESS,
                        .dt = (enum dtype)o->dtype,
                        .threads = (int)o->threads};
    s->tokens = malloc(sizeof *s->tokens * tokens);
    s->targets = malloc(sizeof *s->targets * tokens);
    if (!s->tokens || !s->targets)
        return err_set(err, -ENOMEM, "out of memory for %zu tokens", tokens);
    for (size_t i = 0; i < tokens; i++) {
        s->tokens[i] = (int32_t)((i * 2654435761u) % (s->V < TABLE_ROWS ? s->V : TABLE_ROWS));
        s->targets[i] = (int32_t)((i * 40503u) % s->V);
    }
    return 0;
}

int bench_kernels(struct bench *b, struct err *err)
{
    struct sizes s = {0};
    struct memory a = {0};
    json_t      *rows = json_array();
    size_t       most = 0;
    int          rc = sizes_open(&s, b, err);

    json_object_set_new(b->report, "kernels", rows);
    omp_set_num_threads((int)b->o->train.threads);
    for (size_t i = 0; i < KERNELS && !rc; i++) {
        struct call c = {0};

        kernels[i].call(&s, &c);
        most = c.taken > most ? c.taken : most;
    }
    if (!rc)
        rc = arena_open(&a, b, most, err);
    for (size_t i = 0; i < KERNELS && !rc; i++)
        rc = kernel_measure(b, &kernels[i], &s, &a, rows, err);
    if (a.at && a.at != MAP_FAILED)
        munmap(a.at, a.bytes);
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

void bench_kernels_print(const json_t *report)
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
    json_t *rows = json_object_get(report, "kernels"), *row, *sorted[KERNELS];
    size_t                           i, n = 0;

    printf("Kernels, each against the time that memory or arithmetic takes at least\n");
    bench_table(rows, columns);
    json_array_foreach(rows, i, row)
        if (n < KERNELS)
            sorted[n++] = row;
    qsort(sorted, n, sizeof *sorted, by_share);
    printf("=> furthest from its bound:");
    for (i = 0; i < 3 && i < n; i++)
        printf("%s %s %.0f %%", i ? "," : "", bench_text(sorted[i], "kernel"),
               100 * bench_number(sorted[i], "share"));
    printf("\n");
}
