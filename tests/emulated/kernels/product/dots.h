/* dots.h: AVX512-BF16's dot product in plain C, as Intel's manual describes the instruction, in the
 * place of kernels/product/dots.h: tests/test_product.c proves block_pairs.c on CPUs that have only
 * AVX-512. */
#pragma once

#include "data/base/dtype.h"
#include "kernels/simd.h"

#include <immintrin.h>
#include <math.h>

#define DOTS __attribute__((target("avx512f")))

static inline int dots_fast(void) { return simd_avx512(); }

// Subnormal operands and results are zero.
static inline float dot_flush(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x; }

DOTS static inline __m512 dot_pairs(__m512 sum, __m512i x, __m512i y)
{
    float s[16];
    bf16  u[32], v[32];

    _mm512_storeu_ps(s, sum);
    _mm512_storeu_si512(u, x);
    _mm512_storeu_si512(v, y);
    for (int i = 0; i < 16; i++)
        for (int odd = 1; odd >= 0; odd--)
            s[i] = dot_flush(fmaf(dot_flush(bf16_to_f32(u[2 * i + odd])),
                                  dot_flush(bf16_to_f32(v[2 * i + odd])), dot_flush(s[i])));
    return _mm512_loadu_ps(s);
}
