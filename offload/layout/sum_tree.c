/* sum_tree.c: a row of nodes is a stack: each new one is added to what is on top for as long as the
 * two are children of one. */
#include "offload/layout/sum_tree.h"

#include <assert.h>
#include <string.h>

/* A node without a right neighbour is its parent. */
static struct sum_node grown(struct sum_node a, size_t groups)
{
    while (a.index % 2 == 0 && a.index > 0 && (a.index + 1) << a.level >= groups)
        a = (struct sum_node){ a.level + 1, a.index / 2 };
    return a;
}

static int siblings(struct sum_node a, struct sum_node b)
{
    return a.level == b.level && a.index % 2 == 0 && b.index == a.index + 1;
}

/* Where it is short, starting threads would take longer. */
static void add(float *to, const float *from, size_t n)
{
#pragma omp parallel for simd schedule(static) if (n > 1 << 16)
    for (size_t i = 0; i < n; i++)
        to[i] += from[i];
}

size_t sum_merge(struct sum_node *node, float **x, size_t n, size_t groups, size_t len)
{
    size_t top = 0;

    for (size_t i = 0; i < n; i++) {
        node[top] = grown(node[i], groups);
        if (x)
            x[top] = x[i];
        for (top++; top > 1 && siblings(node[top - 2], node[top - 1]); top--) {
            struct sum_node *left = &node[top - 2];

            if (x)
                add(x[top - 2], x[top - 1], len);
            *left = grown((struct sum_node){ left->level + 1, left->index / 2 }, groups);
        }
    }
    return top;
}

size_t sum_nodes(struct sum_node *out, size_t first, size_t n, size_t groups)
{
    size_t top = 0;

    for (size_t i = 0; i < n; i++) {
        assert(top + 1 < SUM_NODES_MOST);
        out[top++] = (struct sum_node){ 0, first + i };
        top = sum_merge(out, NULL, top, groups, 0);
    }
    return top;
}

size_t sum_slots(size_t first, size_t n, size_t groups)
{
    struct sum_node up[SUM_NODES_MOST], down[SUM_NODES_MOST];
    size_t          ups = 0, downs = 0, most = 0;

    for (size_t i = 0; i < n; i++) {
        most = ups > most ? ups : most;
        most = downs > most ? downs : most;
        up[ups] = (struct sum_node){ 0, first + i };
        ups = sum_merge(up, NULL, ups + 1, groups, 0);
        memmove(down + 1, down, downs * sizeof *down);
        down[0] = (struct sum_node){ 0, first + n - 1 - i };
        downs = sum_merge(down, NULL, downs + 1, groups, 0);
    }
    return most + 1;
}
