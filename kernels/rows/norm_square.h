/* norm_square.h: the mean square of a row, whose root divides the row: about the row's mean for
 * layernorm, about 0 for RMSNorm. Private to both. */
#pragma once

#include "data/base/dtype.h"
#include "kernels/simd.h"

/* The mean of (x - about)^2 over x[0..C), summed in lanes (simd.h). */
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
