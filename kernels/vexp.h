/* vexp.h: exp of floats in branch-free code that the compiler vectorises; libm's exp handles one
 * element per call. Cody and Waite's reduction gives x = n ln2 + r, |r| <= ln2 / 2. A polynomial
 * approximates e^r (minimax by reweighted least squares, 3e-9 before rounding), and n is added
 * to the exponent. Relative error: < 1e-7. NaN stays NaN. */
#pragma once

#include "kernels/simd.h"
#include <stdint.h>
#include <string.h>

/* vexpf for x <= 88.72283, or NaN, which is the range of softmax. */
SIMD_INLINE float vexpf_low(float x)
{
    const float round_magic = 12582912.0f; // 1.5 * 2^23 leaves the nearest integer in the low bits
    float       t = __builtin_fmaf(x, 0x1.715476p+0f, round_magic);
    float       n = t - round_magic;
    float r = __builtin_fmaf(n, -0x1.62e4p-1f, x); // ln2 in two parts; n times the first is exact
    float       p = 0x1.6a2416p-10f;
    uint32_t    bits, shift;

    r = __builtin_fmaf(n, -0x1.7f7d1cp-20f, r);
    p = __builtin_fmaf(p, r, 0x1.1239f2p-7f);
    p = __builtin_fmaf(p, r, 0x1.5558f2p-5f);
    p = __builtin_fmaf(p, r, 0x1.555492p-3f);
    p = __builtin_fmaf(p, r, 0x1.fffffcp-2f);
    p = __builtin_fmaf(p * r, r, r) + 1.0f;
    memcpy(&bits, &p, sizeof bits);
    memcpy(&shift, &t, sizeof shift);
    bits += shift << 23;
    memcpy(&p, &bits, sizeof p);
    p = x < -87.33654f ? 0.0f : p;
    return x != x ? x : p;
}

/* 2^t for t in [-126, 127]; the result is undefined for other t. Relative error: 1.1e-7 before
 * rounding. n is the integer nearest to t, and a polynomial (minimax) approximates 2^(t - n). */
SIMD_INLINE float vexp2f_within(float t)
{
    const float round_magic = 12582912.0f; // as above
    float       r = t + round_magic, f = t - (r - round_magic), p = 0x1.5bba14p-10f;
    uint32_t    bits, shift;

    p = __builtin_fmaf(p, f, 0x1.3cea88p-7f);
    p = __builtin_fmaf(p, f, 0x1.c6b752p-5f);
    p = __builtin_fmaf(p, f, 0x1.ebf9bcp-3f);
    p = __builtin_fmaf(p, f, 0x1.62e42ap-1f);
    p = __builtin_fmaf(p, f, 1.0f);
    memcpy(&bits, &p, sizeof bits);
    memcpy(&shift, &r, sizeof shift);
    bits += shift << 23;
    memcpy(&p, &bits, sizeof p);
    return p;
}

/* e^x; 0 below -87.33654 (where the result would be subnormal), infinity above 88.72283. */
SIMD_INLINE float vexpf(float x) { return x > 88.72283f ? __builtin_inff() : vexpf_low(x); }
