/* bench_topk.c: the selection of the largest elements of a gradient, in bytes of gradient a second,
 * at the sizes of the model's blocks. */
#include "cmd/bench/bench.h"

#include "data/base/round.h"
#include "kernels/rng.h"
#include "kernels/topk.h"

#include <errno.h>
#include <omp.h>
#include <stdlib.h>
#include <stdio.h>

enum { BLOCKS = 2, WAYS = 2 };

struct gradient {
    float            *x;
    size_t            n, k;
    struct topk_pair *pairs;
    void             *scratch;
};

struct topk_run {
    struct gradient *gradient;
    int              threads;
};

static void topk_run(void *ctx, size_t call)
{
    const struct topk_run *r = ctx;
    struct gradient       *g = r->gradient;

    (void)call;
    omp_set_num_threads(r->threads);
    topk_select(g->pairs, g->x, g->n, g->k, g->scratch);
}

static int gradient_open(struct gradient *g, size_t n, double ratio, struct err *err)
{
    g->n = n;
    g->k = topk_count(n, ratio);
    g->x = malloc(sizeof *g->x * n);
    g->pairs = malloc(sizeof *g->pairs * g->k);
    g->scratch = aligned_alloc(64, round_up(topk_scratch(n, g->k), 64));
    if (!g->x || !g->pairs || !g->scratch)
        return err_set(err, -ENOMEM, "out of memory for a gradient of %zu elements", n);
    rng_normal(g->x, n, 1, 1, 0, 0);
    return 0;
}

static void gradient_close(struct gradient *g)
{
    free(g->x);
    free(g->pairs);
    free(g->scratch);
}

int bench_topk(struct bench *b, struct err *err)
{
    static const char *const names[BLOCKS] = {"embeddings", "a layer"};
    double ratio = b->o->train.compress > 0 ? b->o->train.compress : TRAIN_COMPRESS;
    struct gradient          g[BLOCKS] = {0};
    struct topk_run          runs[BLOCKS * WAYS];
    struct bench_item        items[BLOCKS * WAYS];
    int                      threads = (int)b->o->train.threads, rc = 0;
    json_t                  *rows = json_array();

    json_object_set_new(b->report, "topk", rows);
    for (size_t i = 0; i < BLOCKS && !rc; i++)
        rc = gradient_open(&g[i], gpt_block_size(&b->gpt, i), ratio, err);
    for (size_t i = 0; i < BLOCKS * WAYS; i++) {
        runs[i] = (struct topk_run){&g[i / WAYS], i % WAYS ? threads : 1};
        items[i] = (struct bench_item){topk_run, &runs[i], 0};
    }
    if (!rc)
        rc = bench_rounds(items, BLOCKS * WAYS, b->o->rounds, bench_least(b), err);
    for (size_t i = 0; i < BLOCKS && !rc; i++) {
        double bytes = 4 * (double)g[i].n, reads = bench_bandwidth(b->report, 1, 0),
               all = bytes / items[i * WAYS + 1].seconds;

        json_array_append_new(rows,
                              json_pack("{s:s, s:f, s:f, s:f, s:f, s:f}", "block", names[i],
                                        "elements", (double)g[i].n, "ratio", ratio, "one_thread",
                                        bytes / items[i * WAYS].seconds, "all_threads", all,
                                        "share", reads > 0 ? all / reads : 0));
    }
    omp_set_num_threads(threads);
    for (size_t i = 0; i < BLOCKS; i++)
        gradient_close(&g[i]);
    return rc;
}

void bench_topk_print(const json_t *report)
{
    static const struct bench_column columns[] = {{"block", "Top-K", NULL, 0},
                                                  {"elements", "elements", "%.0f", 1},
                                                  {"one_thread", "1 thread", "%.1f", 1e-9},
                                                  {"all_threads", "all threads", "%.1f", 1e-9},
                                                  {"share", "of reading", "%.0f %%", 100},
                                                  {0}};
    const json_t                    *rows = json_object_get(report, "topk");

    printf("Top-K of %g %% of the bytes, GB of gradient a second\n",
           100 * bench_number(json_array_get(rows, 0), "ratio"));
    bench_table(rows, columns);
    printf("=> %.1f GB/s of a layer's gradient\n",
           1e-9 * bench_number(json_array_get(rows, 1), "all_threads"));
}
