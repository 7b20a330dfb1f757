/* transpose.c: transposes 16 x 16 words at a time in AVX-512's registers, or without AVX-512 strips
 * of 8 columns. */
#include "kernels/transpose.h"

#include "kernels/simd.h"

#include <immintrin.h>

enum { SIDE = 16, STRIP = 8 };

/* Transposes 16 rows of 16 words: first by pairs of words, then by pairs of those, then by quarters
 * of a register. */
__attribute__((target("avx512f"), always_inline)) static inline void transpose(__m512i x[SIDE])
{
    __m512i y[SIDE];

    for (int i = 0; i < SIDE; i += 2) {
        y[i]     = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
    for (int i = 0; i < SIDE; i += 4)
        for (int l = 0; l < 2; l++) {
            x[i + 2 * l]     = _mm512_unpacklo_epi64(y[i + l], y[i + l + 2]);
            x[i + 2 * l + 1] = _mm512_unpackhi_epi64(y[i + l], y[i + l + 2]);
        }
    for (int i = 0; i < 4; i++) { // x[4 r + i]: quarter q holds column 4 q + i of rows 4 r ..
        y[i]      = _mm512_shuffle_i32x4(x[i], x[4 + i], 0x88);
        y[4 + i]  = _mm512_shuffle_i32x4(x[i], x[4 + i], 0xdd);
        y[8 + i]  = _mm512_shuffle_i32x4(x[8 + i], x[12 + i], 0x88);
        y[12 + i] = _mm512_shuffle_i32x4(x[8 + i], x[12 + i], 0xdd);
    }
    for (int i = 0; i < 4; i++) {
        x[i]      = _mm512_shuffle_i32x4(y[i], y[8 + i], 0x88);
        x[4 + i]  = _mm512_shuffle_i32x4(y[4 + i], y[12 + i], 0x88);
        x[8 + i]  = _mm512_shuffle_i32x4(y[i], y[8 + i], 0xdd);
        x[12 + i] = _mm512_shuffle_i32x4(y[4 + i], y[12 + i], 0xdd);
    }
}

// Transposes up to 16 rows with n columns, 16 or 8.
__attribute__((target("avx512f"), always_inline)) static inline void
block(uint32_t *restrict out, size_t pitch, const uint32_t *restrict x, size_t stride, size_t rows,
      const size_t n)
{
    const __mmask16 mask = n == SIDE ? 0xffff : 0xff;
    const __mmask16 in = (__mmask16)(rows < SIDE ? (1 << rows) - 1 : 0xffff);
    __m512i         at[SIDE];

    for (size_t i = 0; i < SIDE; i++)
        at[i] = _mm512_maskz_loadu_epi32(i < rows ? mask : 0, x + (i < rows ? i * stride : 0));
    transpose(at);
    for (size_t j = 0; j < n; j++)
        _mm512_mask_storeu_epi32(out + j * pitch, in, at[j]);
}

__attribute__((target("avx512f"))) static void by_registers(uint32_t *restrict out, size_t pitch,
                                                            const uint32_t *restrict x,
                                                            size_t stride, size_t rows,
                                                            size_t cols)
{
    for (size_t i = 0; i < rows; i += SIDE) {
        size_t j = 0;

        for (; j + SIDE <= cols && i + SIDE <= rows; j += SIDE)
            block(out + j * pitch + i, pitch, x + i * stride + j, stride, SIDE, SIDE);
        for (; j + SIDE <= cols; j += SIDE)
            block(out + j * pitch + i, pitch, x + i * stride + j, stride, rows - i, SIDE);
        if (j < cols)
            block(out + j * pitch + i, pitch, x + i * stride + j, stride, rows - i, STRIP);
    }
}

void words_transpose(uint32_t *restrict out, size_t pitch, const uint32_t *restrict x,
                     size_t stride, size_t rows, size_t cols)
{
    if (simd_avx512()) {
        by_registers(out, pitch, x, stride, rows, cols);
        return;
    }
    for (size_t j = 0; j < cols; j += STRIP)
        for (size_t i = 0; i < rows; i++)
            for (size_t l = 0; l < STRIP; l++)
                out[(j + l) * pitch + i] = x[i * stride + j + l];
}
