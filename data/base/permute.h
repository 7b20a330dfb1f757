/* permute.h: an element of a permutation of [0, n), which needs no memory of the others. Runs
 * depend on these bits. */
#pragma once

#include <stdint.h>

/* The place of element i in the permutation that (seed, stream) choose. */
uint64_t permute(uint64_t seed, uint64_t stream, uint64_t i, uint64_t n);

/* The place of row i of a token file's n rows in an epoch. */
uint64_t permute_rows(uint64_t seed, uint64_t epoch, uint64_t i, uint64_t n);
