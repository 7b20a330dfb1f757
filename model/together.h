/* together.h: what the ranks of a job (comm/comm.h) tell each other of a pass, of which each
 * computes its own micro-batches: how much there is in all of them before the head needs it, what
 * came out behind it. Added in the order of micro-batches, so that the number of ranks changes no
 * bit. Nothing is to be told where comm is NULL: one process alone. */
#pragma once

#include "comm/comm.h"

#include <stdint.h>

/* *a and *b become what they are of all ranks together. */
int together_add(struct comm *comm, uint64_t *a, uint64_t *b, struct err *err);

/* values: (ranks, bytes): what this rank has of them stands in its place; then all do. */
int together_gather(struct comm *comm, void *values, size_t bytes, struct err *err);
