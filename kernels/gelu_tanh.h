/* gelu_tanh.h: the tanh form of GELU (gelu.h) and its slope, for kernels that have it in their
 * loops. It goes through the identity (1 + tanh u) / 2 = 1 / (1 + e^-2u) = s, which loses nothing
 * where tanh comes near -1: gelu = x s, gelu' = s + x s (1 - s) 2u', u = k (x + 0.044715 x^3). */
#pragma once

#include "kernels/simd.h"
#include "kernels/vexp.h"

static const float two_k = 1.59576912160573071f; // 2 sqrt(2 / pi)
static const float cubic = 0.044715f;

SIMD_INLINE float minus_2u(float x) { return -two_k * x * __builtin_fmaf(cubic * x, x, 1.0f); }

SIMD_INLINE float tanh_value(float x) { return x * (1.0f / (1.0f + vexpf(minus_2u(x)))); }

/* The value into *value and the slope, which share their exponential. Far out the slope is 0 or 1
 * and its formula infinity times nothing. */
SIMD_INLINE float tanh_slope(float x, float *value)
{
    float t = minus_2u(x), e = vexpf(t), s = 1.0f / (1.0f + e);
    float du = two_k * __builtin_fmaf(3.0f * cubic * x, x, 1.0f);
    float slope = s * __builtin_fmaf(x * du, e * s, 1.0f); // 1 - s = e s

    *value = x * s;
    slope = t > 80.0f ? 0.0f : slope;
    return t < -80.0f ? 1.0f : slope;
}
