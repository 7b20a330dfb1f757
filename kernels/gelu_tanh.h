/* gelu_tanh.h: the tanh form of GELU (gelu.h) and its slope, for kernels that have it in their
 * loops. It goes through the identity (1 + tanh u) / 2 = 1 / (1 + e^-2u) = s, which loses nothing
 * where tanh comes near -1: gelu = x s, gelu' = s + x s (1 - s) 2u' = s (1 + x e s 2u'), e = e^-2u,
 * u = k (x + 0.044715 x^3). From tanh_far on s is 1 and before -tanh_far it is 0, in fp32. */
#pragma once

#include "kernels/simd.h"
#include "kernels/vexp.h"

#define TWO_K    1.59576912160573071f // 2 sqrt(2 / pi)
#define CUBIC    0.044715f
#define LOG2_E_F 1.44269504088896341f

static const float tanh_far = 9.9f;

/* x, not beyond tanh_far on either side. As integers, because what gcc makes of two comparisons of
 * floats is twice as long. */
SIMD_INLINE float tanh_near(float x)
{
    uint32_t bits, far_bits, size;

    memcpy(&bits, &x, sizeof bits);
    memcpy(&far_bits, &tanh_far, sizeof far_bits);
    size = bits & 0x7fffffffu;
    size = size < far_bits ? size : far_bits;
    size |= bits & 0x80000000u;
    memcpy(&x, &size, sizeof x);
    return x;
}

/* The value into *value and the slope, which share their exponential. */
SIMD_INLINE float tanh_slope(float x, float *value)
{
    float near = tanh_near(x), square = near * near;
    float e = vexp2f_within(near * __builtin_fmaf(square, -TWO_K * CUBIC * LOG2_E_F,
                                                  -TWO_K * LOG2_E_F));
    float s = x < -tanh_far ? 0.0f : 1.0f / (1.0f + e);
    float du = __builtin_fmaf(square, 3.0f * TWO_K * CUBIC, TWO_K);
    float slope = s * __builtin_fmaf(near * du, e * s, 1.0f);

    *value = x * s;
    return x != x ? x : slope;
}

SIMD_INLINE float tanh_value(float x)
{
    float value;

    tanh_slope(x, &value);
    return value;
}
