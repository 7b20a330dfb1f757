/* bench_topk.c: the selection of the largest elements of a gradient, in bytes of gradient a second,
 * at the sizes of the model's blocks. */
#include "cmd/bench/bench.h"

#include "kernels/rng.h"
#include "kernels/topk.h"

#include <stdio.h>

enum { BLOCKS = 2 };

struct gradient {
    float            *x;
    size_t            n, k;
    struct topk_pair *pairs;
    void             *scratch;
};

static void topk_call(void *ctx, size_t call)
{
    struct gradient *g = ctx;

    (void)call;
    topk_select(g->pairs, g->x, g->n, g->k, g->scratch);
}

static void lay_gradients(struct arena *a, struct gradient g[BLOCKS])
{
    for (size_t i = 0; i < BLOCKS; i++) {
        g[i].x = arena_take(a, sizeof *g->x * g[i].n);
        g[i].pairs = arena_take(a, sizeof *g->pairs * g[i].k);
        g[i].scratch = arena_take(a, topk_scratch(g[i].n, g[i].k));
    }
}

static int topk_run(struct bench *b, json_t *rows, struct err *err)
{
    static const char *const names[BLOCKS] = {"embeddings", "a layer"};
    double ratio = b->o->train.compress > 0 ? b->o->train.compress : TRAIN_COMPRESS,
           reads = bench_bandwidth(b->report, 1, 0);
    struct gradient   g[BLOCKS];
    struct bench_item items[BLOCKS];
    struct arena      memory = {0};
    int               rc;

    for (size_t i = 0; i < BLOCKS; i++) {
        g[i].n = gpt_block_size(&b->gpt, i);
        g[i].k = topk_count(g[i].n, ratio);
        items[i] = (struct bench_item){.run = topk_call, .ctx = &g[i], .bytes = 4 * (double)g[i].n};
        json_array_append_new(rows, json_pack("{s:s, s:f, s:f}", "block", names[i], "elements",
                                              (double)g[i].n, "ratio", ratio));
    }
    lay_gradients(&memory, g);
    rc = arena_map(&memory, "gradients", err);
    if (rc)
        return rc;
    lay_gradients(&memory, g);
    for (size_t i = 0; i < BLOCKS; i++)
        rng_normal(g[i].x, g[i].n, 1, 1, 0, 0);
    rc = bench_ways(b, items, BLOCKS, rows, err);
    for (size_t i = 0; i < BLOCKS && !rc; i++)
        bench_put(json_array_get(rows, i), "share",
                  reads > 0 ? bench_number(json_array_get(rows, i), "all_threads") / reads : 0);
    arena_free(&memory);
    return rc;
}

static void topk_print(const json_t *rows)
{
    static const struct bench_column columns[] = {{"block", "Top-K", NULL, 0},
                                                  {"elements", "elements", "%.0f", 1},
                                                  {"one_thread", "1 thread", "%.1f", 1e-9},
                                                  {"all_threads", "all threads", "%.1f", 1e-9},
                                                  {"share", "of reading", "%.0f %%", 100},
                                                  {0}};

    printf("Top-K of %g %% of the bytes, GB of gradient a second\n",
           100 * bench_number(json_array_get(rows, 0), "ratio"));
    bench_table(rows, columns, NULL);
    printf("=> %.1f GB/s of a layer's gradient\n",
           1e-9 * bench_number(json_array_get(rows, 1), "all_threads"));
}

const struct bench_section bench_topk = {"topk", 1, {&bench_memory}, topk_run, topk_print};
