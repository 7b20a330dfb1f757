/* sum_tree.c: adds gradients of groups in the order of the tree. It keeps the nodes in a stack: a
 * new node is added to the top one as long as both are children of the same node. */
#include "offload/layout/sum_tree.h"

#include <assert.h>
#include <string.h>

/* The highest node that is the same sum: a node without right neighbour equals its parent. */
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

/* For short arrays, starting threads would take longer than adding. */
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
