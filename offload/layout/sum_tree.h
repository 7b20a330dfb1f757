/* sum_tree.h: the order in which the gradients of a step's groups of micro-batches are added: a
 * binary tree over the groups, which does not know who has computed which group. Node (level,
 * index) is the sum of the existing groups in [index << level, (index + 1) << level). It is the sum
 * of its two children, or its left child if no group falls into the right one.
 *
 * A rank that holds a row of neighbouring groups adds them up to whole nodes. Whoever gets the
 * nodes of all ranks adds them to the same sum, bit for bit, however the groups were divided. */
#pragma once

#include <stddef.h>

struct sum_node { unsigned level; size_t index; };

/* A node's groups are [first, end); there are `groups` in all. */
static inline size_t sum_first(struct sum_node a) { return a.index << a.level; }
static inline size_t sum_end(struct sum_node a, size_t groups)
{
    size_t end = (a.index + 1) << a.level;

    return end < groups ? end : groups;
}

/* The most nodes that a row of neighbouring groups is added up to: two for each level. */
enum { SUM_NODES_MOST = 2 * 8 * (int)sizeof(size_t) };

/* The nodes that groups [first, first + n) can be added up to, in order, and their number, at most
 * SUM_NODES_MOST. There are `groups` in all. */
size_t sum_nodes(struct sum_node *out, size_t first, size_t n, size_t groups);

/* Adds up n neighbouring nodes as far as the tree goes. node: (n) in order; x: (n) pointers to
 * their values, len floats each. A sum replaces its left child, in node, in x and in memory.
 * Returns how many nodes are left. */
size_t sum_merge(struct sum_node *node, float **x, size_t n, size_t groups, size_t len);

/* The most vectors in memory at once while groups [first, first + n) are added up one by one, in
 * rising or falling order: the newest group, and the nodes of the groups before it. */
size_t sum_slots(size_t first, size_t n, size_t groups);
