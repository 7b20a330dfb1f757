/* bench_kernels.c: every kernel at the model's sizes, as a share of what bounds it: the bytes that
 * it must move over the bandwidth that bench_memory.c measured, or its arithmetic over the best
 * product (bench_products.c), whichever takes longer. And Top-K at the sizes of the model's blocks,
 * by one thread and by all.
 *
 * A kernel is a row (kernels_of) of what it takes and does, and a call on memory laid out so. Each
 * call gets memory that the one before did not have, so that it comes from RAM and not from a
 * cache; in a step some of it comes from a cache, and a kernel is then faster than here. Operations
 * are counted once each (an exp is 20): the arithmetic bound is a little low. */
#include "bench/bench.h"
#include "bench/bench_families.h"
#include "data/base/crc32c.h"
#include "data/base/round.h"
#include "kernels/attention.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/gelu.h"
#include "kernels/layernorm.h"
#include "kernels/optim.h"
#include "kernels/reduce.h"
#include "kernels/rng.h"
#include "kernels/rope.h"
#include "kernels/softmax.h"
#include "kernels/topk.h"
#include "model/products.h"

#include <math.h>
#include <omp.h>
#include <unistd.h>

enum {
    UPDATE_PARAMS = 1 << 16, STEP_PARAMS = 1 << 22, STEP_PIECE = 16384, // as mem's update
    MOST_KERNELS = 80,
};

#define THREAD_BYTES 25e9 // that a thread moves in a second, at most

enum which {
    LAYERNORM_FORWARD, LAYERNORM_RESIDUAL, LAYERNORM_APPLY, LAYERNORM_BACKWARD,
    LAYERNORM_BACKWARD_ROWS, LAYERNORM_BACKWARD_ALL, GELU_FORWARD, GELU_BACKWARD,
    ATTENTION_FORWARD, ATTENTION_BACKWARD, SOFTMAX, RESIDUAL, CONVERT, COLSUM, COLSUM_NARROW,
    DROPOUT, EMBEDDING_FORWARD, EMBEDDING_BACKWARD, UPDATE, UPDATE_STEP, SUMSQ, TOPK, CRC,
    START,
};

static_assert(START < (int)FAMILIES, "each kernel has a number of its own");

/* ---- the kernels ---- */

static volatile uint32_t crc_sink; // a pure function whose result nobody wants would not be called
static volatile int      start_sink;

/* Rows of activations; p: the operands as they stand in kernels_of. */
static void run_rows(int which, const struct sizes *s, void *const *p)
{
    struct layernorm l = {.n = s->N, .C = s->C, .dt = s->dt, .x = p[0], .w = p[1], .b = p[2],
                          .mean = p[3], .rstd = p[4], .eps = 1e-5f};

    switch (which) {
    case LAYERNORM_FORWARD:
        layernorm_forward(p[5], &l);
        break;
    case LAYERNORM_RESIDUAL:
        l.x = p[6];
        layernorm_residual(p[7], p[0], p[5], &l);
        break;
    case LAYERNORM_APPLY:
        layernorm_apply(p[5], &l);
        break;
    case LAYERNORM_BACKWARD:
    case LAYERNORM_BACKWARD_ROWS:
    case LAYERNORM_BACKWARD_ALL:
        layernorm_backward(&(struct layernorm_backward){
            .l = &l, .dout = p[8], .dx = p[5], .dw = p[6], .db = p[7], .scratch = p[9],
            .out = which == LAYERNORM_BACKWARD ? NULL : p[10],
            .dx_sums = which == LAYERNORM_BACKWARD_ALL ? p[11] : NULL,
            .narrowed = which == LAYERNORM_BACKWARD_ALL && s->dt != DT_F32 ? p[12] : NULL});
        break;
    case GELU_FORWARD:
        gelu_forward(p[1], p[0], s->dt, s->N * s->F);
        break;
    case GELU_BACKWARD: // the value once more, its gradient and the sums for the bias
        gelu_backward(&(struct gelu_backward){.n = s->N, .C = s->F, .dt = s->dt, .x = p[0],
                                              .dout = p[1], .out = p[2], .dx = p[3], .db = p[4],
                                              .scratch = p[5]});
        break;
    case RESIDUAL:
        residual_add(p[2], p[0], p[1], s->n);
        break;
    case CONVERT:
        convert(p[1], DT_BF16, p[0], DT_F32, s->n);
        break;
    case COLSUM:
        colsum_add(p[2], NULL, p[0], s->dt, s->N, s->qkv, p[1]);
        break;
    case COLSUM_NARROW:
        colsum_add(p[1], p[2], p[0], DT_F32, s->N, s->C, p[3]);
        break;
    case DROPOUT:
        dropout_rows(p[1], p[0], s->N, s->C, 0, &(struct dropout){.p = 0.1f, .seed = 1, .site = 1});
        break;
    default:
        families_run(which, s, p);
    }
}

/* What mem does with a step's parameters; narrow: as bf16 they are another copy. */
static void run_update_step(void *const *p, const struct optim_step *step, int narrow)
{
    float *w = p[0], *m = p[1], *v = p[2], *g = p[3];
    bf16  *wire = p[4];

#pragma omp parallel for schedule(dynamic, 4)
    for (size_t i = 0; i < STEP_PARAMS; i += STEP_PIECE) {
        optim_update(w + i, m + i, v + i, g + i, STEP_PIECE, 0.01f, step);
        if (narrow)
            convert(wire + i, DT_BF16, w + i, DT_F32, STEP_PIECE);
    }
}

/* The others. */
static void run_kernel(int which, const struct sizes *s, void *const *p)
{
    struct attention  a = {.B = s->B, .T = s->T, .C = s->Q, .H = s->H, .dt = s->dt, .qkv = p[0],
                           .out = p[1], .lse = p[2], .scratch = p[3]};
    struct optim_step step;
    int               nonfinite = 0;

    switch (which) {
    case ATTENTION_FORWARD:
        attention_forward(&a);
        break;
    case ATTENTION_BACKWARD:
        attention_backward(p[4], p[5], &a);
        break;
    case SOFTMAX:
        softmax_xent(&(struct softmax_xent){.n = s->logit_rows, .V = s->V, .logits = p[0],
                                            .split = products_split(s->V, s->dt), .dt = s->dt,
                                            .targets = s->targets, .losses = p[1],
                                            .dlogits = p[2], .scale = 1e-3f});
        break;
    case EMBEDDING_FORWARD:
        embedding_forward(p[2], p[0], p[1], s->dt, s->tokens, s->B, s->T, s->C);
        break;
    case EMBEDDING_BACKWARD:
        embedding_backward(p[0], p[1], p[2], s->tokens, s->B, s->T, s->C);
        break;
    case UPDATE:
        optim_scalars(&step, OPTIM_ADAMW, 1e-4, 0.9, 0.999, 1e-8, 1, 10);
        optim_update(p[0], p[1], p[2], p[3], UPDATE_PARAMS, 0.01f, &step);
        break;
    case UPDATE_STEP:
        optim_scalars(&step, OPTIM_ADAMW, 1e-4, 0.9, 0.999, 1e-8, 1, 10);
        run_update_step(p, &step, s->dt != DT_F32);
        break;
    case SUMSQ:
        reduce_sumsq(p[0], s->layer, &nonfinite, p[1]);
        break;
    case TOPK:
        topk_select(p[1], p[0], s->layer, s->k, p[2]);
        break;
    case CRC:
        crc_sink = crc32c(0, p[0], 4 * (size_t)UPDATE_PARAMS);
        break;
    case START:
#pragma omp parallel
        start_sink = omp_get_thread_num();
        break;
    default:
        run_rows(which, s, p);
    }
}

static struct kernel topk_of(const struct sizes *s)
{
    return (struct kernel){"Top-K", s->layer, 0, 0, TOPK,
                           .p = {{IN, 4 * s->layer}, {OUT, sizeof(struct topk_pair) * s->k},
                                 {CACHED, topk_scratch(s->layer, s->k)}}, .normal = 1};
}

/* All of them; how many. Embeddings are of the first TABLE_ROWS words: a whole table would not
 * change what is moved. */
static size_t kernels_of(struct kernel out[MOST_KERNELS], const struct sizes *s)
{
    size_t n = s->n, N = s->N, C = s->C, e = s->e, btc = s->btc, V = s->V, rows = s->logit_rows,
           lse = 4 * s->B * s->H * s->T, words = TABLE_ROWS * C, n4 = 4 * n, u = UPDATE_PARAMS,
           t = STEP_PARAMS, wire = s->dt == DT_F32 ? 0 : 2 * t, F = s->F, Q = s->Q, qkv = s->qkv,
           nF = N * F, btq = s->bt * Q, attention = attention_scratch(s->T, Q, s->H, s->H,
                                                                      s->threads);
    double T = (double)s->T, elements = (double)btc;
    const struct kernel all[] = {
        {"layernorm forward", N, C, 8, LAYERNORM_FORWARD,
         .p = {{IN, n4}, {IN, e * C}, {IN, e * C}, {OUT, 4 * N}, {OUT, 4 * N}, {OUT, e * n}}},
        {"residual and layernorm", N, C, 9, LAYERNORM_RESIDUAL,
         .p = {{IN, n4}, {IN, e * C}, {IN, e * C}, {OUT, 4 * N}, {OUT, 4 * N}, {IN, n4}, {OUT, n4},
               {OUT, e * n}}},
        {"layernorm apply", N, C, 4, LAYERNORM_APPLY,
         .p = {{IN, n4}, {IN, e * C}, {IN, e * C}, {IN, 4 * N}, {IN, 4 * N}, {OUT, e * n}}},
        {"layernorm backward", N, C, 15, LAYERNORM_BACKWARD, // the bias is not needed
         .p = {{IN, n4}, {IN, e * C}, {CACHED, e * C}, {IN, 4 * N}, {IN, 4 * N}, {BOTH, n4},
               {BOTH, 4 * C}, {BOTH, 4 * C}, {IN, n4}, {CACHED, colsum_scratch(N, 3 * C)}}},
        {"layernorm backward, rows", N, C, 17, LAYERNORM_BACKWARD_ROWS,
         .p = {{IN, n4}, {IN, e * C}, {IN, e * C}, {IN, 4 * N}, {IN, 4 * N}, {BOTH, n4},
               {BOTH, 4 * C}, {BOTH, 4 * C}, {IN, n4}, {CACHED, colsum_scratch(N, 3 * C)},
               {OUT, e * n}}},
        {"layernorm backward, rows, sums", N, C, 18, LAYERNORM_BACKWARD_ALL, // and rounding
         .p = {{IN, n4}, {IN, e * C}, {IN, e * C}, {IN, 4 * N}, {IN, 4 * N}, {BOTH, n4},
               {BOTH, 4 * C}, {BOTH, 4 * C}, {IN, n4}, {CACHED, colsum_scratch(N, 3 * C)},
               {OUT, e * n}, {BOTH, 4 * C}, {OUT, s->dt == DT_F32 ? 0 : 2 * n}}},
        {"gelu forward", N, F, FLOPS_EXP + 10, GELU_FORWARD,
         .p = {{IN, e * nF}, {OUT, e * nF}}},
        {"gelu backward and sums", N, F, FLOPS_EXP + 20, GELU_BACKWARD,
         .p = {{IN, e * nF}, {IN, 4 * nF}, {OUT, e * nF}, {OUT, e * nF}, {BOTH, 4 * F},
               {CACHED, colsum_scratch(N, F)}}},
        {"attention forward", s->bt, Q, 2 * T, ATTENTION_FORWARD,
         .p = {{IN, 3 * e * btq}, {OUT, e * btq}, {OUT, lse}, {CACHED, attention}}, .products = 1},
        {"attention backward", s->bt, Q, 5 * T, ATTENTION_BACKWARD,
         .p = {{IN, 3 * e * btq}, {IN, e * btq}, {IN, lse}, {CACHED, attention}, {OUT, 3 * e * btq},
               {IN, e * btq}}, .products = 1},
        {"softmax, loss and gradient", rows, V, FLOPS_EXP + 5, SOFTMAX,
         .p = {{IN, 4 * rows * V}, {OUT, 4 * rows}, {OUT, e * rows * V}}},
        {"residual", N, C, 1, RESIDUAL, .p = {{IN, n4}, {IN, n4}, {OUT, n4}}},
        {"convert to bf16", N, C, 0, CONVERT, .p = {{IN, n4}, {OUT, 2 * n}}},
        {"sum of columns", N, qkv, 1, COLSUM,
         .p = {{IN, e * N * qkv}, {CACHED, colsum_scratch(N, qkv)}, {BOTH, 4 * qkv}}},
        {"sum of columns, rounding", N, C, 1, COLSUM_NARROW,
         .p = {{IN, n4}, {BOTH, 4 * C}, {OUT, 2 * n}, {CACHED, colsum_scratch(N, C)}}},
        {"dropout", N, C, 0, DROPOUT, .p = {{IN, n4}, {OUT, n4}}},
        {"embedding forward", s->bt, C, 1, EMBEDDING_FORWARD,
         .p = {{CACHED, e * words}, {IN, e * s->T * C}, {OUT, 4 * btc}},
         .reads = (double)e * elements},
        {"embedding backward", s->bt, C, 2, EMBEDDING_BACKWARD,
         .p = {{CACHED, 4 * words}, {BOTH, 4 * s->T * C}, {IN, 4 * btc}},
         .reads = 4 * elements, .writes = 4 * elements},
        {"AdamW", u, 0, 16, UPDATE,
         .p = {{BOTH, 4 * u}, {BOTH, 4 * u}, {BOTH, 4 * u}, {IN, 4 * u}}, .one_thread = 1},
        {"AdamW and rounding", t, 0, 16, UPDATE_STEP,
         .p = {{BOTH, 4 * t}, {BOTH, 4 * t}, {BOTH, 4 * t}, {IN, 4 * t}, {OUT, wire}}},
        {"sum of squares", s->layer, 0, 2, SUMSQ,
         .p = {{IN, 4 * s->layer}, {CACHED, reduce_scratch(s->layer)}}, .normal = 1},
        topk_of(s),
        {"CRC32C", 4 * u, 0, 0, CRC, .p = {{IN, 4 * u}}, .one_thread = 1},
        {"start of all threads", 1, 0, 0, START, .p = {{0}}}, // which spin since the one before
    };

    memcpy(out, all, sizeof all);
    return sizeof all / sizeof *all + families_of(out + sizeof all / sizeof *all, s);
}

/* ---- running them ---- */

/* A kernel on memory for `copies` of its operands. */
struct kernel_run {
    const struct kernel *kernel;
    const struct sizes  *sizes;
    char                *memory;
    size_t               each, copies;
};

static void kernel_call(void *ctx, size_t call)
{
    const struct kernel_run *r = ctx;
    char                    *at = r->memory + call % r->copies * r->each;
    void                    *p[OPERANDS];

    for (size_t i = 0; i < OPERANDS; at += round_up(r->kernel->p[i++].bytes, 4096))
        p[i] = at;
    run_kernel(r->kernel->which, r->sizes, p);
}

static size_t taken(const struct kernel *k)
{
    size_t sum = 0;

    for (size_t i = 0; i < OPERANDS; i++)
        sum += round_up(k->p[i].bytes, 4096);
    return sum;
}

static double moved(const struct kernel *k, enum use how)
{
    double sum = how == IN ? k->reads : k->writes;

    for (size_t i = 0; i < OPERANDS; i++)
        sum += k->p[i].use & how ? (double)k->p[i].bytes : 0;
    return sum;
}

/* What no kernel gets through in its turns: memory behind that need not be filled. */
static size_t moved_at_most(const struct bench *b, const struct sizes *s)
{
    return (size_t)(THREAD_BYTES * s->threads * b->seconds / 2 * (double)(b->o->rounds + 1));
}

static int kernel_measure(struct bench *b, const struct kernel *k, const struct sizes *s,
                          const struct arena *memory, json_t *rows, struct err *err)
{
    size_t filled = size_min(memory->bytes, size_max(2 * taken(k), moved_at_most(b, s)));
    struct kernel_run run = {k, s, memory->base, taken(k),
                             filled / size_max(taken(k), 1)};
    struct bench_item item = {.run = kernel_call, .ctx = &run};
    int    threads = k->one_thread ? 1 : s->threads;
    double reads = moved(k, IN), writes = moved(k, OUT), bytes = reads + writes;
    double flops = k->flops * (double)k->rows * (double)size_max(k->columns, 1);
    double peak = bench_engines(b->report, BENCH_PEAK, k->products ? (int)s->dt : DT_F32) *
                  threads / s->threads;
    double moving = bytes / bench_bandwidth(json_object_get(b->report, "memory"), !k->one_thread,
                                            writes > 0.01 * reads);
    double computing = peak > 0 ? flops / peak : 0;
    char   size[48];

    if (k->normal)
        rng_normal((float *)(void *)memory->base, filled / 4, 1, 1, 0, 0);
    else
        bench_fill(memory->base, filled, 0);
    snprintf(size, sizeof size, k->columns ? "%zu x %zu" : "%zu", k->rows, k->columns);
    int rc = bench_rounds(&item, 1, b->o->rounds, b->seconds / 2, err);
    if (rc)
        return rc;
    json_array_append_new(
        rows, json_pack("{s:s, s:s, s:I, s:i, s:f, s:f, s:f, s:f, s:f, s:s, s:f, s:f}", "kernel",
                        k->name, "size", size, "rows", (json_int_t)k->rows, "threads", threads,
                        "seconds", item.median, "bytes", bytes, "bytes_per_second",
                        bytes / item.median, "flops", flops, "flops_per_second",
                        flops / item.median, "bound", moving > computing ? "memory" : "arithmetic",
                        "bound_seconds", fmax(moving, computing), "share",
                        fmax(moving, computing) / item.median));
    return 0;
}

static double ratio_of(const struct bench *b)
{
    return b->o->train.compress > 0 ? b->o->train.compress : TRAIN_COMPRESS;
}

static struct sizes sizes_of(const struct bench *b, size_t block)
{
    const struct train_opts *o = &b->o->train;
    const struct model_config *g = &b->config;
    size_t C = g->n_embd, tokens = o->batch * o->seq, chunk = size_min(tokens, CHUNK_ROWS),
           layer = arch_block_size(g, block);

    return (struct sizes){.B = o->batch, .T = o->seq, .C = C, .H = g->n_head,
                          .D = g->head_dim, .KV = g->n_kv_head, .F = g->n_inner, .W = g->window,
                          .Q = arch_dim(g, DIM_HEADS), .qkv = arch_dim(g, DIM_QKV),
                          .V = arch_words(g, 0).n, .plus = g->arch->norm_plus,
                          .N = chunk, .n = chunk * C, .bt = tokens,
                          .btc = tokens * C, .logit_rows = size_min(tokens, LOGIT_ROWS),
                          .layer = layer, .k = topk_count(layer, ratio_of(b)),
                          .dt = (enum dtype)o->dtype,
                          .e = dtype_bytes((enum dtype)o->dtype), .threads = (int)o->threads,
                          .head = g->head_dim / 2 * 2};
}

static int kernels_run(struct bench *b, json_t *rows, struct err *err)
{
    struct sizes  s = sizes_of(b, arch_layer_block(&b->config, 1));
    struct kernel k[MOST_KERNELS];
    struct arena  memory = {0}, words = {0};
    long          cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    size_t        n = kernels_of(k, &s), bytes = (size_t)(b->o->quick ? 64 : 256) << 20;

    // twice the last cache, or twice what a kernel takes, where that is more
    if (cache > 0 && cache <= 512 << 20)
        bytes = size_max(bytes, 2 * (size_t)cache);
    for (size_t i = 0; i < n; i++)
        bytes = size_max(bytes, 2 * taken(&k[i]));
    arena_take(&memory, bytes);
    arena_take(&words, sizeof *s.tokens * (3 * s.bt + s.B) + sizeof *s.angles * s.T * s.head);
    int rc = arena_map(&memory, "the operands of kernels", err);
    rc = rc ? rc : arena_map(&words, "the tokens and angles of kernels", err);
    s.tokens = (int32_t *)(void *)words.base;
    s.targets = s.tokens ? s.tokens + s.bt : NULL;
    s.types = s.tokens ? s.targets + s.bt : NULL;
    s.lengths = s.tokens ? s.types + s.bt : NULL;
    s.angles = s.tokens ? (float *)(void *)(s.lengths + s.B) : NULL;
    for (size_t i = 0; i < s.bt && !rc; i++) {
        s.tokens[i] = (int32_t)((i * 2654435761u) % size_min(s.V, TABLE_ROWS));
        s.targets[i] = (int32_t)((i * 40503u) % s.V);
        s.types[i] = i % s.T >= s.T / 2;
    }
    for (size_t i = 0; i < s.B && !rc; i++)
        s.lengths[i] = (int32_t)size_max(s.T * 3 / 4, 1);
    omp_set_num_threads(s.threads);
    if (!rc)
        rope_table(s.angles, &(struct rope){.D = s.head, .theta = 1e4}, s.T);
    for (size_t i = 0; i < n && !rc; i++)
        rc = kernel_measure(b, &k[i], &s, &memory, rows, err);
    arena_free(&words);
    arena_free(&memory);
    return rc;
}

/* ---- Top-K, by one thread and by all ---- */

static int topk_measure(struct bench *b, json_t *rows, struct err *err)
{
    static const char *const names[] = {"embeddings", "a layer"};
    double                   reads = bench_bandwidth(json_object_get(b->report, "memory"), 1, 0);
    struct sizes             s[2] = {sizes_of(b, 0), sizes_of(b, arch_layer_block(&b->config, 1))};
    struct kernel            k[2] = {topk_of(&s[0]), topk_of(&s[1])};
    size_t                   first = taken(&k[0]);
    struct arena             memory = {0};

    arena_take(&memory, first + taken(&k[1]));
    int rc = arena_map(&memory, "gradients", err);
    if (rc)
        return rc;
    struct kernel_run run[2] = {{&k[0], &s[0], memory.base, first, 1},
                                {&k[1], &s[1], memory.base + first, taken(&k[1]), 1}};
    struct bench_item items[2];
    for (size_t i = 0; i < 2; i++) {
        items[i] = (struct bench_item){.run = kernel_call, .ctx = &run[i],
                                       .bytes = 4 * (double)s[i].layer};
        json_array_append_new(rows, json_pack("{s:s, s:f, s:f}", "block", names[i], "elements",
                                              (double)s[i].layer, "ratio", ratio_of(b)));
        rng_normal((float *)(void *)run[i].memory, s[i].layer, 1, 1, 0, 0);
    }
    rc = bench_ways(b, items, 2, rows, err);
    for (size_t i = 0; i < 2 && !rc; i++)
        bench_put(json_array_get(rows, i), "share",
                  reads > 0 ? json_num(json_array_get(rows, i), "all_threads") / reads : 0);
    arena_free(&memory);
    return rc;
}

/* ---- printing ---- */

static int by_share(const void *a, const void *b)
{
    double x = json_num(*(json_t *const *)a, "share"),
           y = json_num(*(json_t *const *)b, "share");

    return (x > y) - (x < y);
}

static void kernels_print(const json_t *rows)
{
    static const struct bench_column columns[] = {
        {"kernel", "kernel", NULL, 0}, {"size", "size", NULL, 0}, {"threads", "threads", "%.0f", 1},
        {"seconds", "us", "%.1f", 1e6}, {"bytes_per_second", "GB/s", "%.1f", 1e-9},
        {"flops_per_second", "GFLOP/s", "%.1f", 1e-9}, {"share", "share", "%.0f %%", 100},
        {"bound", "of its bound", NULL, 0}, {0}};
    json_t *row, *sorted[MOST_KERNELS];
    size_t  i, n = 0;

    printf("Kernels, each against the time that memory or arithmetic takes at least\n");
    bench_table(rows, columns, NULL);
    json_array_foreach(rows, i, row)
        if (json_num(row, "bound_seconds") > 0)
            sorted[n++] = row;
    qsort(sorted, n, sizeof *sorted, by_share);
    printf("=> furthest from its bound:");
    for (i = 0; i < 3; i++)
        printf("%s %s %.0f %%", i ? "," : "", json_str(sorted[i], "kernel"),
               100 * json_num(sorted[i], "share"));
    printf("\n");
}

static void topk_print(const json_t *rows)
{
    static const struct bench_column columns[] = {
        {"block", "Top-K", NULL, 0}, {"elements", "elements", "%.0f", 1},
        {"one_thread", "1 thread", "%.1f", 1e-9}, {"all_threads", "all threads", "%.1f", 1e-9},
        {"share", "of reading", "%.0f %%", 100}, {0}};

    printf("Top-K of %g %% of the bytes, GB of gradient a second\n",
           100 * json_num(json_array_get(rows, 0), "ratio"));
    bench_table(rows, columns, NULL);
    printf("=> %.1f GB/s of a layer's gradient\n",
           1e-9 * json_num(json_array_get(rows, 1), "all_threads"));
}

const struct bench_section bench_kernels = {
    .name = "kernels", .is_rows = 1, .needs = BENCH_PRODUCTS | BENCH_MEMORY, .run = kernels_run,
    .print = kernels_print};
const struct bench_section bench_topk = {
    .name = "topk", .is_rows = 1, .needs = BENCH_MEMORY, .run = topk_measure, .print = topk_print};
