/* softmax.c: a row of logits is read from memory once and then, twice more, from cache: its maximum, its
 * sum of exponentials, its gradient. Exponentials are computed twice, not stored: dlogits may be bf16. */
#include "kernels/softmax.h"
#include "kernels/simd.h"
#include "kernels/vexp.h"

#include <assert.h>
#include <math.h>

enum { RUN = 4096 }; // elements summed in float before their sum goes to a double

SIMD_CLONES
static float row_max(const float *x, size_t V)
{
    float  lane[SIMD_LANES], top = -INFINITY;
    size_t i = 0;

    for (size_t l = 0; l < SIMD_LANES; l++)
        lane[l] = -INFINITY;
    for (; i + SIMD_LANES <= V; i += SIMD_LANES)
        for (size_t l = 0; l < SIMD_LANES; l++)
            lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (size_t l = 0; i + l < V; l++)
        lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (size_t l = 0; l < SIMD_LANES; l++)
        top = lane[l] > top ? lane[l] : top;
    return top;
}

SIMD_CLONES
static float run_sum(const float *x, float top, size_t n)
{
    float  lane[SIMD_LANES] = {0};
    size_t i = 0;

    for (; i + SIMD_LANES <= n; i += SIMD_LANES)
        for (size_t l = 0; l < SIMD_LANES; l++)
            lane[l] += vexpf(x[i + l] - top);
    for (size_t l = 0; i + l < n; l++)
        lane[l] += vexpf(x[i + l] - top);
    return simd_sum(lane);
}

SIMD_INLINE void gradient_as(void *out, enum dtype dt, const float *x, float top, float factor, size_t V)
{
#pragma omp simd // out may be x: each element is read before it is written
    for (size_t i = 0; i < V; i++)
        dtype_put(out, dt, i, vexpf(x[i] - top) * factor);
}

SIMD_CLONES
static void row_gradient(void *out, enum dtype dt, const float *x, float top, float factor, size_t V)
{
    if (dt == DT_F32)
        gradient_as(out, DT_F32, x, top, factor, V);
    else
        gradient_as(out, DT_BF16, x, top, factor, V);
}

/* One row; returns the loss. */
static float row_xent(void *dlogits, enum dtype dt, const float *x, size_t target, size_t V, float scale)
{
    float  top = row_max(x, V), at = x[target] - top;
    double sum = 0.0;

    for (size_t i = 0; i < V; i += RUN)
        sum += (double)run_sum(x + i, top, V - i < RUN ? V - i : RUN);
    if (dlogits) {
        double p = exp((double)at) / sum;

        row_gradient(dlogits, dt, x, top, (float)((double)scale / sum), V);
        dtype_put(dlogits, dt, target, (float)((p - 1.0) * (double)scale));
    }
    return (float)(log(sum) - (double)at);
}

void softmax_xent(float *losses, void *dlogits, enum dtype dt, const float *logits,
                  const int32_t *targets, size_t n, size_t V, float scale)
{
    size_t row_bytes = V * dtype_bytes(dt);

#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i++) {
        char *row = dlogits ? (char *)dlogits + i * row_bytes : NULL;

        assert(targets[i] < 0 || (size_t)targets[i] < V);
        losses[i] = 0.0f;
        if (targets[i] >= 0)
            losses[i] = row_xent(row, dt, logits + i * V, (size_t)targets[i], V, scale);
        else if (row)
            memset(row, 0, row_bytes);
    }
}
