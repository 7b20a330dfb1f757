/* block_pairs.c: multiplies blocks of bf16 with AVX512-BF16's dot products of pairs, on CPUs whose
 * cores multiply bf16 faster than fp32. */
#include "kernels/product/block_form.h"

#include "kernels/product/dots.h"
#include "kernels/simd.h"

/* A block of ROWS x VECTORS registers of sums, as in block_f32.c. */
enum { ROWS = 8, VECTORS = 3, COLS = 16 * VECTORS };

DOTS static void multiply(const struct block *p)
{
    const word *a = p->a, *b = p->b;
    __m512      sum[ROWS][VECTORS];

    SIMD_UNROLL for (int i = 0; i < ROWS; i++)
        SIMD_UNROLL for (int v = 0; v < VECTORS; v++)
            sum[i][v] = p->fresh ? _mm512_setzero_ps()
                                 : _mm512_load_ps(p->sums + i * COLS + 16 * v);
    for (size_t k = p->words; k > 0; k--, a += ROWS, b += COLS) {
        __m512i row[VECTORS];

        SIMD_UNROLL for (int v = 0; v < VECTORS; v++)
            row[v] = _mm512_load_si512(b + 16 * v);
        SIMD_UNROLL for (int i = 0; i < ROWS; i++)
            SIMD_UNROLL for (int v = 0; v < VECTORS; v++)
                sum[i][v] = dot_pairs(sum[i][v], _mm512_set1_epi32((int)a[i]), row[v]);
    }
    SIMD_UNROLL for (int i = 0; i < ROWS; i++)
        SIMD_UNROLL for (int v = 0; v < VECTORS; v++)
            _mm512_store_ps(p->sums + i * COLS + 16 * v, sum[i][v]);
}

const struct block_form block_pairs = {
    .name = "avx512_bf16", .dt = DT_BF16, .rows = ROWS, .cols = COLS, .left = ROWS, .right = COLS,
    .cuts = { 96, 256, 1 << 18, 384, 8, 8192, 1 << 20, 256, 0 }, .runs = dots_fast,
    .multiply = multiply,
};
