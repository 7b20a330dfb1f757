/* test_sum_tree.c: groups are added in one order, however they are cut into rows, and whether they
 * stand in memory or come one by one, up or down; against naive sums in double precision. Pairs are
 * added as what is zero but for them. */
#include "kernels/update/reduce.h"
#include "offload/gradient/grouped.h"
#include "offload/gradient/pair_sum.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEN = 37, MOST = 33 };

static float value(size_t group, size_t i)
{
    uint64_t x = (group * 7919 + i + 1) * 0x9e3779b97f4a7c15u;

    return (float)((double)(x >> 40) / (1 << 20) - 8.0) * (group % 3 ? 1.0f : 1e-3f);
}

static void fill(float *x, size_t group)
{
    for (size_t i = 0; i < LEN; i++)
        x[i] = value(group, i);
}

/* The sum of rows of `each` groups, each added up apart as far as it goes, then all together. */
static void by_rows(float *out, size_t groups, size_t each)
{
    static float    x[MOST][LEN];
    struct sum_node nodes[MOST], row[MOST], expected[SUM_NODES_MOST];
    float          *at[MOST], *in_row[MOST];
    size_t          n = 0;

    for (size_t first = 0; first < groups; first += each) {
        size_t here = groups - first < each ? groups - first : each;

        for (size_t i = 0; i < here; i++) {
            fill(x[first + i], first + i);
            row[i] = (struct sum_node){ 0, first + i };
            in_row[i] = x[first + i];
        }
        size_t left = sum_merge(row, in_row, here, groups, LEN);
        assert_int_equal(left, sum_nodes(expected, first, here, groups));
        for (size_t i = 0; i < left; i++) {
            assert_int_equal(row[i].level, expected[i].level);
            assert_int_equal(row[i].index, expected[i].index);
            nodes[n] = row[i];
            at[n++] = in_row[i];
        }
    }
    assert_int_equal(sum_merge(nodes, at, n, groups, LEN), 1);
    memcpy(out, at[0], sizeof x[0]);
}

static void any_cut_same_bits(void **state)
{
    float one[LEN], cut[LEN];

    (void)state;
    for (size_t groups = 1; groups <= MOST; groups++) {
        by_rows(one, groups, groups);
        for (size_t each = 1; each < groups; each++) {
            by_rows(cut, groups, each);
            assert_memory_equal(cut, one, sizeof one);
        }
        for (size_t i = 0; i < LEN; i++) {
            double sum = 0, size = 0;

            for (size_t g = 0; g < groups; g++) {
                sum += (double)value(g, i);
                size += fabs((double)value(g, i));
            }
            assert_true(fabs((double)one[i] - sum) <= 6 * 0x1p-24 * size); // the tree is 6 deep
        }
    }
}

/* A model of one block, whose gradient is added to in so many runs. */
static void model(struct run_config *cfg, size_t *params, int runs, size_t rank, size_t ranks,
                  size_t groups)
{
    unsigned all = ROUTE_READ | ROUTE_ADD | ROUTE_SEND;

    *params = LEN;
    *cfg = (struct run_config){ .block_params = params,
                                .ranks = { .rank = rank, .size = ranks, .groups = groups } };
    cfg->route.lanes[0] = (struct route_lane){ 1, { 1, 1 } };
    cfg->route.runs[STREAM_TRAIN][0] =
        (struct route_run){ .way = ROUTE_UP, .uses = runs == 1 ? all : ROUTE_READ | ROUTE_ADD };
    if (runs == 2)
        cfg->route.runs[STREAM_TRAIN][1] =
            (struct route_run){ .way = ROUTE_UP, .uses = ROUTE_ADD | ROUTE_SEND };
}

/* A rank's groups as they come. */
static void by_coming(struct grouped *g, const struct run_config *cfg, int down)
{
    int    fresh;
    size_t n = run_groups(cfg);

    grouped_begin(g, cfg, 0);
    for (size_t run = 0; run < (g->once ? 1 : 2); run++)
        for (size_t i = 0; i < n; i++) {
            size_t group = down ? n - 1 - i : i, before = grouped_before(g, group);

            if (before != GROUPED_NONE)
                grouped_add(g, before, LEN);
            float *x = grouped_lend(g, group, &fresh);
            assert_int_equal(fresh, run == 0);
            fill(x, g->first + group); // a second run writes the same once more
            assert_true(grouped_lend(g, group, &fresh) == x && !fresh);
        }
    struct route_span last = grouped_last(g);
    for (size_t i = last.first; i < last.end; i++)
        grouped_add(g, i, LEN);
}

static void coming_same_bits(void **state)
{
    static float     places[4][MOST * LEN];
    struct grouped   g[4];
    struct sum_node  nodes[MOST];
    struct run_config cfg;
    char             began[4][MOST];
    float            one[LEN], *at[MOST];
    size_t           params;

    (void)state;
    for (size_t groups = 1; groups <= MOST; groups++)
        for (size_t ranks = 1; ranks <= 4; ranks++)
            for (int way = 0; way < 3 && groups % ranks == 0; way++) { // up, down, two runs
                size_t n = 0;

                by_rows(one, groups, groups);
                for (size_t r = 0; r < ranks; r++) {
                    model(&cfg, &params, way == 2 ? 2 : 1, r, ranks, groups);
                    g[r] = (struct grouped){ .grad = places[r], .stride = LEN, .began = began[r],
                                             .slots = grouped_slots(&cfg, 0, 0) };
                    if (way == 2)
                        assert_int_equal(g[r].slots, groups / ranks);
                    else // the depth of the tree, and the one that comes
                        assert_true(g[r].slots <= 2 * 6 + 1);
                    by_coming(&g[r], &cfg, way == 1);
                    for (size_t k = 0; k < g[r].held; k++, n++) {
                        nodes[n] = g[r].node[k];
                        at[n] = g[r].x[k];
                    }
                }
                assert_int_equal(sum_merge(nodes, at, n, groups, LEN), 1);
                assert_memory_equal(at[0], one, sizeof one);
            }
    assert_int_equal(sum_slots(0, 1, 1), 1);
    assert_int_equal(sum_slots(0, 1 << 20, 1 << 20), 21);
}

/* ---- pairs ---- */

enum { N = 3 * REDUCE_BLOCK + 777, GROUPS = 11 };

/* Every 50th element or so of a group, some of several; one is a negative zero. */
static size_t choose(struct topk_pair *out, size_t group)
{
    size_t k = 0;

    for (size_t i = group % 3; i < N; i += 40 + (i * 31 + group) % 21)
        out[k++] = (struct topk_pair){ (uint32_t)i, value(group, i) };
    out[k / 2].value = -0.0f;
    return k;
}

static struct pair_list list_of(const struct sum_node *nodes, struct pair_list *from, size_t n,
                                size_t first, size_t len, double *sums)
{
    struct pair_sum  s = { from, nodes, n, GROUPS, first, len, malloc(pair_sum_scratch(n)) };
    struct pair_list sum = { malloc((size_t)N * sizeof *sum.pairs), 0 };

    assert_non_null(s.scratch);
    assert_non_null(sum.pairs);
    sum.n = pair_sum(&s, sum.pairs, sums);
    free(s.scratch);
    return sum;
}

/* What a dense sum has, where a list has a pair, and the squares of all. */
static void dense_same(const struct pair_list *lists, struct pair_list sum, const double *sums)
{
    float          *dense = calloc((size_t)GROUPS * N, sizeof *dense), *x[GROUPS];
    char           *there = calloc(N, 1);
    struct sum_node nodes[GROUPS];
    double          squares[4];
    size_t          seen = 0;

    assert_non_null(dense);
    assert_non_null(there);
    for (size_t g = 0; g < GROUPS; g++) {
        nodes[g] = (struct sum_node){ 0, g };
        x[g] = dense + g * N;
        for (size_t i = 0; i < lists[g].n; i++) {
            x[g][lists[g].pairs[i].index] = lists[g].pairs[i].value;
            there[lists[g].pairs[i].index] = 1;
        }
    }
    assert_int_equal(sum_merge(nodes, x, GROUPS, GROUPS, N), 1);
    for (size_t i = 0; i < N; i++) {
        if (!there[i])
            continue;
        assert_int_equal(sum.pairs[seen].index, i);
        assert_memory_equal(&sum.pairs[seen++].value, &x[0][i], sizeof(float));
    }
    assert_int_equal(sum.n, seen);
    reduce_sums(squares, x[0], N);
    assert_memory_equal(sums, squares, sizeof squares);
    free(dense);
    free(there);
}

static void pairs_as_dense(void **state)
{
    struct pair_list lists[GROUPS], one;
    struct sum_node  leaves[GROUPS], nodes[SUM_NODES_MOST];
    double           sums[4], part[4];

    (void)state;
    for (size_t g = 0; g < GROUPS; g++) {
        leaves[g] = (struct sum_node){ 0, g };
        lists[g].pairs = malloc((size_t)N * sizeof *lists[g].pairs);
        assert_non_null(lists[g].pairs);
        lists[g].n = choose(lists[g].pairs, g);
    }
    one = list_of(leaves, lists, GROUPS, 0, N, sums);
    dense_same(lists, one, sums);
    for (size_t each = 1; each < GROUPS; each++) { // rows of groups, then portions of all
        struct pair_list row[SUM_NODES_MOST], cut[SUM_NODES_MOST];
        size_t           n = 0, at = 0;

        for (size_t first = 0; first < GROUPS; first += each) {
            size_t k = n, here = GROUPS - first < each ? GROUPS - first : each;

            for (n += sum_nodes(nodes + n, first, here, GROUPS); k < n; k++)
                row[k] = list_of(leaves + sum_first(nodes[k]), lists + sum_first(nodes[k]),
                                 sum_end(nodes[k], GROUPS) - sum_first(nodes[k]), 0, N, NULL);
        }
        for (size_t from = 0, to; from < N; from = to) {
            to = from ? N : 2 * REDUCE_BLOCK;
            for (size_t k = 0; k < n; k++)
                cut[k] = pair_list_part(row[k], from, to - from);
            struct pair_list sum = list_of(nodes, cut, n, from, to - from, part);
            assert_memory_equal(sum.pairs, one.pairs + at, sum.n * sizeof *sum.pairs);
            assert_memory_equal(part, sums + from / REDUCE_BLOCK, 2 * sizeof *part);
            at += sum.n;
            free(sum.pairs);
        }
        assert_int_equal(at, one.n);
        for (size_t k = 0; k < n; k++)
            free(row[k].pairs);
    }
    for (size_t g = 0; g < GROUPS; g++)
        free(lists[g].pairs);
    free(one.pairs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_cut_same_bits),
        cmocka_unit_test(coming_same_bits),
        cmocka_unit_test(pairs_as_dense),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
