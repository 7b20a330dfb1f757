/* topk.h: exact magnitude Top-K: the k elements of largest |x|, with ties to the lower index, as
 * pairs sorted by index. The method is that of Smart-Infinity (HPCA 2024, section IV-C), made
 * exact. */
#pragma once

#include "data/base/dtype.h"

struct topk_pair {
    uint32_t index;
    float    value;
};

/* Selects out[0..k) from x[0..n), 1 <= k <= n < 2^32, no NaN. Parallel; the result does not
 * depend on the number of threads. scratch: topk_scratch(n, k) bytes. */
void   topk_select(struct topk_pair *out, const float *x, size_t n, size_t k, void *scratch);
size_t topk_scratch(size_t n, size_t k);

/* The number of pairs that a block of n elements keeps at `ratio` (bytes of pairs / bytes of
 * fp32): max(1, floor(ratio / 2 * n)). */
size_t topk_count(size_t n, double ratio);

/* The largest magnitude of the pairs, which is also that of the vector they were selected from.
 * Infinite if there is a NaN. */
float topk_most(const struct topk_pair *pairs, size_t k);
