/* rng.h: counter-based random numbers (Philox 4x32-10, Salmon et al., SC 2011). A number depends
 * only on (seed, stream, index). Any range can therefore be generated alone, in any order. */
#pragma once

#include "data/base/dtype.h"

/* 64 random bits for (seed, stream, index). */
uint64_t rng_bits(uint64_t seed, uint64_t stream, uint64_t index);

/* Uniform in [0, 1), 24 bits. */
float rng_uniform(uint64_t seed, uint64_t stream, uint64_t index);

/* x[i] += a number of the uniform distribution over [-reach, reach), which depends on (seed,
 * stream, i) alone, with 24 bits. i in [0, n). Parallel. */
void rng_uniform_add(float *x, size_t n, float reach, uint64_t seed, uint64_t stream);

/* out[i] = number first + i of N(0, std^2) for (seed, stream), i in [0, n). Box-Muller in
 * double, so the bits do not depend on where an array is cut. Parallel. */
void rng_normal(float *out, size_t n, float std, uint64_t seed, uint64_t stream, uint64_t first);
