/* gelu_tanh.h: the tanh form of GELU (gelu.h) and its slope, for use in the loops of kernels. It
 * uses the identity (1 + tanh u) / 2 = 1 / (1 + e^-2u) = s, which loses no precision where tanh
 * is near -1. With e = e^-2u and u = k (x + 0.044715 x^3):
 *
 *     gelu = x s,    gelu' = s + x s (1 - s) 2u' = s (1 + x e s 2u')
 *
 * In fp32, s is 1 from tanh_far on, and 0 below -tanh_far. */
#pragma once

#include "kernels/simd.h"
#include "kernels/vexp.h"

#define TWO_K    1.59576912160573071f // 2 sqrt(2 / pi)
#define CUBIC    0.044715f
#define LOG2_E_F 1.44269504088896341f

static const float tanh_far = 9.9f;

/* x, clamped to [-tanh_far, tanh_far]. It works on integers, because gcc's code for two
 * comparisons of floats is twice as long. */
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

/* Returns the slope and writes the value to *value; both share one exponential. */
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
