/* norm_square.h: the mean square that rows are divided by the root of: layernorm's about the row's
 * mean, RMSNorm's about 0. Private to both. */
#pragma once

#include "data/base/dtype.h"
#include "kernels/simd.h"

/* The mean of (x - about)^2 over x[0..C), in lanes. */
SIMD_INLINE float norm_square(const void *x, enum dtype dt, float about, size_t C)
{
    float  lane[SIMD_LANES] = {0};
    size_t j = 0;

    for (; j + SIMD_LANES <= C; j += SIMD_LANES)
        for (size_t l = 0; l < SIMD_LANES; l++) {
            float d = dtype_get(x, dt, j + l) - about;

            lane[l] = __builtin_fmaf(d, d, lane[l]);
        }
    for (size_t l = 0; j + l < C; l++) {
        float d = dtype_get(x, dt, j + l) - about;

        lane[l] = __builtin_fmaf(d, d, lane[l]);
    }
    return simd_sum(lane) / (float)C;
}
