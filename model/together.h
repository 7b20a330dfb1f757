/* together.h: exchanges results of a pass among the ranks of a job (comm/comm.h). Each rank
 * computes its own micro-batches. Before the head, the ranks exchange counts; after it, losses.
 * Sums are added in the order of micro-batches, so the number of ranks changes no bit. If comm
 * is NULL, there is one process and nothing to exchange. */
#pragma once

#include "comm/comm.h"

/* Replaces *a and *b by their sums over all ranks. b may be NULL. */
int together_add(struct comm *comm, uint64_t *a, uint64_t *b, struct err *err);

/* values: (ranks, bytes). On entry, this rank's part is filled. On return, all parts are. */
int together_gather(struct comm *comm, void *values, size_t bytes, struct err *err);
