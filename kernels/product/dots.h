/* dots.h: AVX512-BF16's dot product, for block_pairs.c. The tests have a header of the same name
 * that computes it in plain C. */
#pragma once

#include "kernels/simd.h"

#include <immintrin.h>

#define DOTS __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))

static inline int dots_fast(void) { return simd_fast_bf16(); }

/* sum + the products of both halves of each word. */
DOTS __attribute__((always_inline)) static inline __m512 dot_pairs(__m512 sum, __m512i x, __m512i y)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)y);
}
