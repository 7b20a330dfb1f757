/* rng.h: counter-based random numbers (Philox 4x32-10, Salmon et al., SC 2011): a number is a
 * function of (seed, stream, index) alone, so that any part can be made alone, in any order, by
 * anyone. */
#pragma once

#include "data/base/dtype.h"

/* 64 random bits for (seed, stream, index). */
uint64_t rng_bits(uint64_t seed, uint64_t stream, uint64_t index);

/* Uniform in [0, 1), 24 bits. */
float rng_uniform(uint64_t seed, uint64_t stream, uint64_t index);

/* out[i] = N(0, std^2) number (seed, stream, first + i), i in [0, n). Box-Muller, in double, so
 * that the bits do not depend on where an array is cut. Parallel. */
void rng_normal(float *out, size_t n, float std, uint64_t seed, uint64_t stream, uint64_t first);
