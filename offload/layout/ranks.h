/* ranks.h: a run that several ranks train together (comm/comm.h), as one of them sees it. Every
 * block of the model is cut into a portion for each rank, one behind the other. A rank's devices
 * hold its portions and nothing else: its folder is a run of these, with a journal of its own. What
 * the model works with are whole blocks: parameters are gathered from all ranks when they are read,
 * gradients are exchanged so that each gets all that was computed for its portion (ZeRO's third
 * stage; Rajbhandari et al., SC'20).
 *
 * A step's micro-batches are cut into `groups`, of which each rank computes as many; their
 * gradients are added by a tree that does not know of ranks (sum_tree.h). So the bits depend on the
 * number of groups alone. One process has one group where nobody asks for more. */
#pragma once

#include "offload/layout/sum_tree.h"

struct comm;
struct run_config;
struct run_ranks {
    size_t        rank, size;   // size 0 or 1: one process alone
    size_t        groups;       // of a step; a multiple of size; 0: 1
    const size_t *whole_params; // (n blocks) parameters of each; NULL: run_config.block_params
    struct comm  *comm;         // NULL: alone, or of a run that is only looked at
    const struct run_config *const *parts; // (size) where one process reads all of them; or NULL
};

/* Where the portion of `rank` of a block of n parameters begins; of rank `size`: n. Portions begin
 * where norms begin a sum of their own (kernels/reduce.h), so that these do not depend on ranks. */
size_t ranks_first(size_t n, size_t rank, size_t size);

/* What this rank has of blocks of so many parameters; of all of them together. */
size_t ranks_portions(size_t *portion, const struct run_ranks *r, const size_t *params, size_t n);

/* The nodes of the sum that a rank sends of each gradient (at most SUM_NODES_MOST), and how many: 1
 * of ranks that compute a group each. */
size_t ranks_nodes(const struct run_ranks *r, size_t rank, struct sum_node *out);
