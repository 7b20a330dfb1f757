/* pair_sum.h: compressed gradients of several groups are added as dense ones that are zero but for
 * their pairs would be, in the order of the tree (sum_tree.h): so whoever adds dense ones gets the
 * same bits. The sum has a pair wherever one of them has one. */
#pragma once

#include "kernels/topk.h"
#include "offload/layout/sum_tree.h"

struct pair_list { struct topk_pair *pairs; size_t n; }; // rising by index

/* Neighbours that are all of one node, of a block's elements [first, first + n): no list has
 * others. */
struct pair_sum {
    const struct pair_list *lists; // (n_lists)
    const struct sum_node  *nodes; // (n_lists) which they are
    size_t                  n_lists, groups;
    size_t                  first, n;
    void                   *scratch; // pair_sum_scratch(n_lists) bytes
};
size_t pair_sum_scratch(size_t n_lists);

/* How many pairs the sum has, in out: as many as all lists together, at most. sums, or NULL: of
 * squares, one for each REDUCE_BLOCK elements (kernels/reduce.h). */
size_t pair_sum(const struct pair_sum *s, struct topk_pair *out, double *sums);

/* Those of a list in [first, first + n). */
struct pair_list pair_list_part(struct pair_list all, size_t first, size_t n);
