/* permute.h: computes one element of a permutation of [0, n), without memory for the others. The
 * order of a run's rows depends on these bits, so they must not change. */
#pragma once

#include <stdint.h>

/* Returns the place of element i in the permutation that (seed, stream) select. */
uint64_t permute(uint64_t seed, uint64_t stream, uint64_t i, uint64_t n);

/* Returns the place of row i of a token file's n rows in an epoch. */
uint64_t permute_rows(uint64_t seed, uint64_t epoch, uint64_t i, uint64_t n);
