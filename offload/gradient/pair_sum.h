/* pair_sum.h: the sum of several groups' compressed gradients. They are added in the order of the
 * tree (sum_tree.h), like dense gradients that are zero except for their pairs, so a dense sum has
 * the same bits. The sum has a pair wherever some group has one. */
#pragma once

#include "kernels/update/topk.h"
#include "offload/layout/sum_tree.h"

struct pair_list { struct topk_pair *pairs; size_t n; }; // rising by index

/* Lists that together are one node of the tree, in order. Their pairs lie in elements
 * [first, first + n) of a block. */
struct pair_sum {
    const struct pair_list *lists; // (n_lists)
    const struct sum_node  *nodes; // (n_lists) the node of each list
    size_t                  n_lists, groups;
    size_t                  first, n;
    void                   *scratch; // pair_sum_scratch(n_lists) bytes
};
size_t pair_sum_scratch(size_t n_lists);

/* Put the sum's pairs into out, which has room for the pairs of all lists, and return their number.
 * sums: gets a sum of squares for each REDUCE_BLOCK elements (kernels/update/reduce.h); or NULL. */
size_t pair_sum(const struct pair_sum *s, struct topk_pair *out, double *sums);

/* The part of a list with indices in [first, first + n). */
struct pair_list pair_list_part(struct pair_list all, size_t first, size_t n);
