/* sum_tree.h: in which order the gradients of a step's groups of micro-batches are added: by a
 * binary tree over the groups, which knows nothing of who has computed which. Node (level, index)
 * is the sum of the groups [index << level, (index + 1) << level), of those that there are: the sum
 * of its two children, or its left one alone where there are no groups for a right one.
 *
 * So whoever holds a row of groups can add up what of it is whole nodes, and whoever gets the nodes
 * of all adds them to the same sum, bit for bit, whatever rows they were cut into. */
#pragma once

#include <stddef.h>

struct sum_node { unsigned level; size_t index; };

/* Its groups are [first, end), of `groups`. */
static inline size_t sum_first(struct sum_node a) { return a.index << a.level; }
static inline size_t sum_end(struct sum_node a, size_t groups)
{
    size_t end = (a.index + 1) << a.level;

    return end < groups ? end : groups;
}

/* A row of so many neighbours has at most so many nodes that are not part of a larger one. */
enum { SUM_NODES_MOST = 2 * 8 * (int)sizeof(size_t) };

/* The nodes that groups [first, first + n) of `groups` can be added up to, in order, at most
 * SUM_NODES_MOST; how many. */
size_t sum_nodes(struct sum_node *out, size_t first, size_t n, size_t groups);

/* node[i], i < n, are neighbours in order, and x[i][0..len) their values: those that are children
 * of one node are added, into the left one's place, as far as that goes. How many there are then,
 * in order, in node and x. */
size_t sum_merge(struct sum_node *node, float **x, size_t n, size_t groups, size_t len);

/* How many vectors whoever adds up groups [first, first + n) as they come, in rising or in falling
 * order, has to hold at once: the one that comes, and the nodes of those before. */
size_t sum_slots(size_t first, size_t n, size_t groups);
