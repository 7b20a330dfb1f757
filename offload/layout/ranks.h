/* ranks.h: a run that several ranks train together (comm/comm.h), as one of them sees it. Every
 * block of the model is cut into a portion for each rank, in the order of ranks. A rank's devices
 * hold its portions and nothing else: its folder is a run of them, with a journal of its own. The
 * model works with whole blocks. Parameters are gathered from all ranks when they are read.
 * Gradients are exchanged, so that each rank gets all that was computed for its portion (ZeRO's
 * third stage; Rajbhandari et al., SC'20).
 *
 * A step's micro-batches are cut into `groups`. Each rank computes the same number of groups. Their
 * gradients are added by a tree that does not know of ranks (sum_tree.h), so the bits depend only
 * on the number of groups. One process has one group by default. */
#pragma once

#include "offload/layout/sum_tree.h"

#include <limits.h>

struct comm;
struct run_config;
struct run_ranks {
    size_t        rank, size;   // size 0 or 1: one process alone
    size_t        groups;       // of a step; a multiple of size; 0 means 1
    const size_t *whole_params; // (n blocks) of whole blocks; NULL: run_config.block_params
    struct comm  *comm;         // NULL: one process alone, or a run that is only read
    const struct run_config *const *parts; // (size) all ranks' runs, if one process reads them all
};

/* The first parameter of a rank's portion of a block with n parameters; n for rank `size`. A
 * portion begins where a norm begins a new partial sum (kernels/update/reduce.h), so that norms do
 * not depend on the number of ranks. */
size_t ranks_first(size_t n, size_t rank, size_t size);

/* portion: (n) parameters of this rank's portion of each of n blocks; params: (n) of whole blocks.
 * Returns the sum of portions. */
size_t ranks_portions(size_t *portion, const struct run_ranks *r, const size_t *params, size_t n);

/* The nodes of the sum that a rank sends of each gradient (at most SUM_NODES_MOST), and how many: 1
 * of ranks that compute a group each. */
size_t ranks_nodes(const struct run_ranks *r, size_t rank, struct sum_node *out);

/* The length of the path of rank 0's folder in that of a rank's: without the end, .rankN. All of
 * the path, if it has no such end. */
size_t ranks_first_length(const char *dir, size_t rank);

/* How each rank is given its own --device. */
#define RANKS_DEVICES "mpirun -n 1 siTrain ... --device A ... : -n 1 siTrain ... --device B ..."

/* Writes the command that all ranks of a run take together: "mpirun -n SIZE siTrain COMMAND RUN",
 * without mpirun for one process. RUN is rank 0's folder, quoted for a shell; dir: this rank's.
 * Returns out. */
enum { RANKS_COMMAND = PATH_MAX + 64 };
const char *ranks_command(char out[RANKS_COMMAND], const char *dir, const struct run_ranks *r,
                          const char *command);
