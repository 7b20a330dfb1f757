/* bench_kernels.c: measures every kernel at the model's sizes, as a share of its bound. The bound
 * is the longer of two times: its bytes over the bandwidth that bench_memory.c measured, and its
 * arithmetic over the unit's rate (bench_products.c).
 *
 * A kernel is a row of bench_kernel_rows.c: what it takes and does, and a call on memory laid out
 * for it. Each call gets memory that the one before did not have, so it comes from RAM, not from a
 * cache. In a step some of it comes from a cache, and the kernel is faster than here. Operations
 * count once each (an exp is 20), so the arithmetic bound is a little low. */
#include "bench/bench.h"
#include "bench/bench_kernels.h"
#include "data/base/round.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/rope.h"
#include "kernels/elementwise.h"
#include "kernels/rng.h"
#include "kernels/rows/softmax.h"
#include "kernels/update/reduce.h"
#include "kernels/update/topk.h"
#include "model/layer/products.h"

#include <ctype.h>
#include <math.h>
#include <omp.h>
#include <unistd.h>

enum { MOST_KERNELS = 128, PAGE = 4096 };

#define THREAD_BYTES 25e9 // the most that a thread moves in a second

/* ---- sizes ---- */

/* Heads of shared keys and values: the model's or, if it shares none, a divisor of its heads. */
static size_t shared_of(size_t heads, size_t kv)
{
    size_t group = 4;

    if (kv < heads)
        return kv;
    while (group > 1 && heads % group)
        group--;
    return group > 1 ? heads / group : 1;
}

static void scratch_set(struct sizes *s)
{
    size_t H = s->H, *of = s->of;

    of['s'] = size_max(size_max(colsum_scratch(s->N, size_max(3 * s->C, s->F)),
                                colsum_scratch(s->N, of['q'])),
                       size_max(colsum_scratch(s->R, s->V), colsum_scratch(s->N, s->D)));
    of['a'] = attention_scratch(s->T, s->Q, H, H, s->threads);
    of['a'] = size_max(of['a'], attention_scratch(s->T, s->Q, H, s->shared, s->threads));
    of['a'] = size_max(of['a'], attention_scratch(s->T, s->Q, H, s->KV, s->threads));
    of['d'] = reduce_scratch(of['L']);
    of['x'] = topk_scratch(of['L'], of['k']);
}

static struct sizes sizes_of(const struct bench *b)
{
    const struct train_opts *o = &b->o->train;
    const struct model_config *g = &b->config;
    size_t tokens = o->batch * o->seq, layer = arch_block_size(g, arch_layer_block(g, 1));
    struct sizes s = { .B = o->batch, .T = o->seq, .C = g->n_embd, .H = g->n_head,
                       .D = g->head_dim, .KV = g->n_kv_head, .F = g->n_inner,
                       .Q = arch_dim(g, DIM_HEADS), .V = arch_words(g, 0).n,
                       .plus = g->arch->norm_plus, .N = size_min(tokens, CHUNK_ROWS),
                       .t = tokens, .R = size_min(tokens, LOGIT_ROWS), .dt = (enum dtype)o->dtype,
                       .threads = (int)o->threads, .head = g->head_dim / 2 * 2,
                       .window = g->window ? size_min(g->window, o->seq)
                                           : size_max(o->seq / 4, 1),
                       .length = size_max(o->seq * 3 / 4, 1) };
    size_t *of = s.of, e = dtype_bytes(s.dt);

    s.shared = shared_of(s.H, s.KV);
    of['B'] = s.B, of['T'] = s.T, of['C'] = s.C, of['H'] = s.H, of['D'] = s.D, of['F'] = s.F;
    of['Q'] = s.Q, of['V'] = s.V, of['N'] = s.N, of['t'] = s.t, of['R'] = s.R, of['e'] = e;
    of['r'] = s.dt == DT_F32 ? 0 : 2;
    of['q'] = arch_dim(g, DIM_QKV);
    of['G'] = s.Q + 2 * s.shared * s.D;
    of['K'] = s.shared * s.D;
    of['h'] = s.H + s.KV;
    of['m'] = (s.H + s.KV) * s.head;
    of['y'] = s.B * s.length;
    of['L'] = layer;
    of['k'] = topk_count(layer, o->compress > 0 ? o->compress : TRAIN_COMPRESS);
    of['p'] = sizeof(struct topk_pair);
    of['f'] = sizeof(struct softmax_so_far);
    of['U'] = UPDATE_PARAMS;
    of['P'] = STEP_PARAMS;
    of['w'] = TABLE_ROWS;
    scratch_set(&s);
    return s;
}

/* Parses a product of numbers and letters, up to a blank. */
static size_t size_parse(const struct sizes *s, const char **at)
{
    size_t product = 1;

    while (**at && **at != ' ')
        product *= isdigit((unsigned char)**at) ? strtoul(*at, (char **)(uintptr_t)at, 10)
                                                : s->of[(unsigned char)*(*at)++];
    return product;
}

/* The mean number of keys that a query sees. */
static double keys_seen(const struct sizes *s, enum keys keys)
{
    double T = (double)s->T, W = (double)s->window, length = (double)s->length;

    switch (keys) {
    case KEYS_HALF: return T / 2;
    case KEYS_CAUSAL: return (T + 1) / 2;
    case KEYS_WINDOW: return W * (2 * T - W + 1) / 2 / T;
    case KEYS_PADDED: return length * length / T;
    case KEYS_ALL: return T;
    default: return 1;
    }
}

/* ---- running them ---- */

/* A kernel, with memory for `copies` of its operands. */
struct kernel_run {
    const struct kernel *kernel;
    const struct sizes  *sizes;
    char                *memory;
    size_t               bytes[OPERANDS], taken, copies;
    double               reads, writes;
};

static struct kernel_run run_of(const struct kernel *k, const struct sizes *s)
{
    struct kernel_run run = { .kernel = k, .sizes = s, .copies = 1 };
    size_t            n = 0;

    for (const char *at = k->operands; *at; at += *at == ' ') {
        char   use = *at++;
        size_t bytes = size_parse(s, &at);

        run.reads += strchr("ibr", use) ? (double)bytes : 0;
        run.writes += strchr("obw", use) ? (double)bytes : 0;
        if (use != 'r' && use != 'w')
            run.taken += run.bytes[n++] = round_up(bytes, PAGE);
    }
    return run;
}

static void kernel_call(void *ctx, size_t call)
{
    const struct kernel_run *r = ctx;
    char                    *at = r->memory + call % r->copies * r->taken;
    void                    *p[OPERANDS];

    for (size_t i = 0; i < OPERANDS; at += r->bytes[i++])
        p[i] = at;
    r->kernel->call(r->sizes, p, r->kernel->how);
}

static int kernel_measure(struct bench *b, const struct kernel *k, const struct sizes *s,
                          const struct arena *memory, json_t *rows, struct err *err)
{
    struct kernel_run run = run_of(k, s);
    struct bench_item item = {.run = kernel_call, .ctx = &run};
    // more memory than the kernel moves in its turns need not be filled
    double moves = THREAD_BYTES * s->threads * b->seconds / 2 * (double)(b->o->rounds + 1);
    size_t filled = size_min(memory->bytes, size_max(2 * run.taken, (size_t)moves));
    const char *at = k->rows, *across = k->columns;
    size_t      n = size_parse(s, &at), columns = across ? size_parse(s, &across) : 0;
    int    one = k->flags & ONE_THREAD, threads = one ? 1 : s->threads;
    double bytes = run.reads + run.writes;
    double flops = k->flops * keys_seen(s, k->keys) * (double)n * (double)size_max(columns, 1);
    double peak = bench_unit(b->report, k->keys ? (int)s->dt : DT_F32) * threads /
                  s->threads;
    double moving = bytes / bench_bandwidth(json_object_get(b->report, "memory"), !one,
                                            run.writes > 0.01 * run.reads);
    double computing = peak > 0 ? flops / peak : 0;
    char   size[48];

    run.memory = memory->base;
    run.copies = run.taken ? filled / run.taken : 1;
    if (k->flags & NORMAL)
        rng_normal((float *)(void *)memory->base, filled / 4, 1, 1, 0, 0);
    else
        bench_fill(memory->base, filled, 0);
    snprintf(size, sizeof size, columns ? "%zu x %zu" : "%zu", n, columns);
    int rc = bench_rounds(&item, 1, b->o->rounds, b->seconds / 2, err);
    if (rc)
        return rc;
    json_array_append_new(
        rows, json_pack("{s:s, s:s, s:I, s:i, s:f, s:f, s:f, s:f, s:f, s:s, s:f, s:f}", "kernel",
                        k->name, "size", size, "rows", (json_int_t)n, "threads", threads,
                        "seconds", item.median, "bytes", bytes, "bytes_per_second",
                        bytes / item.median, "flops", flops, "flops_per_second",
                        flops / item.median, "bound", moving > computing ? "memory" : "arithmetic",
                        "bound_seconds", fmax(moving, computing), "share",
                        fmax(moving, computing) / item.median));
    return 0;
}

/* Fills `words`: tokens below TABLE_ROWS, and other inputs of kernels. */
static int words_fill(struct sizes *s, struct arena *words, struct err *err)
{
    for (int laid = 0; laid < 2; laid++) {
        int rc = laid ? arena_map(words, "the tokens and angles of kernels", err) : 0;

        if (rc)
            return rc;
        s->tokens = arena_take(words, sizeof *s->tokens * s->t);
        s->targets = arena_take(words, sizeof *s->targets * s->t);
        s->types = arena_take(words, sizeof *s->types * s->t);
        s->lengths = arena_take(words, sizeof *s->lengths * s->B);
        s->angles = arena_take(words, sizeof *s->angles * s->T * s->head);
    }
    for (size_t i = 0; i < s->t; i++) {
        s->tokens[i] = (int32_t)((i * 2654435761u) % size_min(s->V, TABLE_ROWS));
        s->targets[i] = (int32_t)((i * 40503u) % s->V);
        s->types[i] = i % s->T >= s->T / 2;
    }
    for (size_t i = 0; i < s->B; i++)
        s->lengths[i] = (int32_t)s->length;
    rope_table(s->angles, &(struct rope){.D = s->head, .theta = 1e4}, s->T);
    return 0;
}

static int kernels_run(struct bench *b, json_t *rows, struct err *err)
{
    struct sizes s = sizes_of(b);
    struct arena memory = {0}, words = {0};
    long         cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    size_t       bytes = (size_t)(b->o->quick ? 64 : 256) << 20;

    // twice the last cache or, if that is more, twice what a kernel needs
    if (cache > 0 && cache <= 512 << 20)
        bytes = size_max(bytes, 2 * (size_t)cache);
    for (const struct kernel *k = bench_kernel_rows; k->name; k++)
        bytes = size_max(bytes, 2 * run_of(k, &s).taken);
    arena_take(&memory, bytes);
    omp_set_num_threads(s.threads);
    int rc = arena_map(&memory, "the operands of kernels", err);
    rc = rc ? rc : words_fill(&s, &words, err);
    for (const struct kernel *k = bench_kernel_rows; k->name && !rc; k++)
        rc = kernel_measure(b, k, &s, &memory, rows, err);
    arena_free(&words);
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

const struct bench_section bench_kernels = {
    .name = "kernels", .is_rows = 1, .needs = BENCH_PRODUCTS | BENCH_MEMORY, .run = kernels_run,
    .print = kernels_print};
