/* reduce.c: sums vectors so that the bits do not depend on threads or vector width. A block is
 * summed in LANES partial sums, element i in lane i % LANES. The lanes are added in order, then the
 * blocks in order. */
#include "data/base/round.h"
#include "kernels/simd.h"
#include "kernels/update/reduce.h"

#include <assert.h>
#include <math.h>

enum { LANES = 32 };

static_assert(REDUCE_BLOCK % LANES == 0, "only the last block has a tail");

SIMD_CLONES static double block_sumsq(const float *x, size_t n)
{
    double lane[LANES] = {0}, sum = 0.0;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += (double)x[i + l] * (double)x[i + l];
    for (size_t l = 0; i + l < n; l++)
        lane[l] += (double)x[i + l] * (double)x[i + l];
    for (size_t l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

size_t reduce_scratch(size_t n) { return div_up(n, REDUCE_BLOCK) * sizeof(double); }

void reduce_sums(double *sums, const float *x, size_t n)
{
#pragma omp parallel for schedule(dynamic)
    for (size_t b = 0; b < div_up(n, REDUCE_BLOCK); b++)
        sums[b] = block_sumsq(x + b * REDUCE_BLOCK, size_min(n - b * REDUCE_BLOCK, REDUCE_BLOCK));
}

double reduce_sumsq(const float *x, size_t n, int *nonfinite, void *scratch)
{
    double *part = scratch, sum = 0.0;

    reduce_sums(part, x, n);
    for (size_t b = 0; b < div_up(n, REDUCE_BLOCK); b++)
        sum += part[b];
    // The largest square is 1.2e77, so no sum of finite floats overflows a double.
    if (!isfinite(sum))
        *nonfinite = 1;
    return sum;
}

size_t reduce_argmax(const float *x, size_t n)
{
    size_t best = 0;

    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}
