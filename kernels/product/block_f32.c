/* block_f32.c: multiplies blocks in fp32: with AVX-512, with AVX2, and in plain C. */
#include "kernels/product/block_form.h"

#include "kernels/simd.h"

#include <immintrin.h>
#include <math.h>

/* A block of ROWS x VECTORS registers of sums; the other registers hold a row of the right operand
 * and one element of the left one. */
enum { ROWS_512 = 8, VECTORS_512 = 3, COLS_512 = 16 * VECTORS_512 };
enum { ROWS_256 = 4, VECTORS_256 = 3, COLS_256 = 8 * VECTORS_256 };

__attribute__((target("avx512f"))) static void multiply_avx512(const struct block *p)
{
    const float *a = (const float *)p->a, *b = (const float *)p->b;
    __m512       sum[ROWS_512][VECTORS_512];

    SIMD_UNROLL for (int i = 0; i < ROWS_512; i++)
        SIMD_UNROLL for (int v = 0; v < VECTORS_512; v++)
            sum[i][v] = p->fresh ? _mm512_setzero_ps()
                                 : _mm512_load_ps(p->sums + i * COLS_512 + 16 * v);
    for (size_t k = p->words; k > 0; k--, a += ROWS_512, b += COLS_512) {
        __m512 row[VECTORS_512];

        SIMD_UNROLL for (int v = 0; v < VECTORS_512; v++)
            row[v] = _mm512_load_ps(b + 16 * v);
        SIMD_UNROLL for (int i = 0; i < ROWS_512; i++)
            SIMD_UNROLL for (int v = 0; v < VECTORS_512; v++)
                sum[i][v] = _mm512_fmadd_ps(_mm512_set1_ps(a[i]), row[v], sum[i][v]);
    }
    SIMD_UNROLL for (int i = 0; i < ROWS_512; i++)
        SIMD_UNROLL for (int v = 0; v < VECTORS_512; v++)
            _mm512_store_ps(p->sums + i * COLS_512 + 16 * v, sum[i][v]);
}

__attribute__((target("avx2,fma"))) static void multiply_avx2(const struct block *p)
{
    const float *a = (const float *)p->a, *b = (const float *)p->b;
    __m256       sum[ROWS_256][VECTORS_256];

    SIMD_UNROLL for (int i = 0; i < ROWS_256; i++)
        SIMD_UNROLL for (int v = 0; v < VECTORS_256; v++)
            sum[i][v] = p->fresh ? _mm256_setzero_ps()
                                 : _mm256_load_ps(p->sums + i * COLS_256 + 8 * v);
    for (size_t k = p->words; k > 0; k--, a += ROWS_256, b += COLS_256) {
        __m256 row[VECTORS_256];

        SIMD_UNROLL for (int v = 0; v < VECTORS_256; v++)
            row[v] = _mm256_load_ps(b + 8 * v);
        SIMD_UNROLL for (int i = 0; i < ROWS_256; i++)
            SIMD_UNROLL for (int v = 0; v < VECTORS_256; v++)
                sum[i][v] = _mm256_fmadd_ps(_mm256_broadcast_ss(a + i), row[v], sum[i][v]);
    }
    SIMD_UNROLL for (int i = 0; i < ROWS_256; i++)
        SIMD_UNROLL for (int v = 0; v < VECTORS_256; v++)
            _mm256_store_ps(p->sums + i * COLS_256 + 8 * v, sum[i][v]);
}

static void multiply_plain(const struct block *p)
{
    const float *a = (const float *)p->a, *b = (const float *)p->b;

    for (int i = 0; i < ROWS_256 * COLS_256 && p->fresh; i++)
        p->sums[i] = 0.0f;
    for (size_t k = p->words; k > 0; k--, a += ROWS_256, b += COLS_256)
        SIMD_UNROLL for (int i = 0; i < ROWS_256; i++)
            for (int j = 0; j < COLS_256; j++)
                p->sums[i * COLS_256 + j] = fmaf(a[i], b[j], p->sums[i * COLS_256 + j]);
}

static int always(void) { return 1; }

const struct block_form block_avx512 = {
    .name = "avx512", .dt = DT_F32, .rows = ROWS_512, .cols = COLS_512, .left = ROWS_512,
    .right = COLS_512,
    .cuts = { 96, 256, 1 << 18, 384, 8, 8192, 1 << 20, 256, 0 }, .runs = simd_avx512,
    .multiply = multiply_avx512,
};

const struct block_form block_avx2 = {
    .name = "avx2", .dt = DT_F32, .rows = ROWS_256, .cols = COLS_256, .left = ROWS_256,
    .right = COLS_256,
    .cuts = { 96, 256, 1 << 18, 384, 8, 8192, 1 << 20, 256, 0 }, .runs = simd_avx2,
    .multiply = multiply_avx2,
};

const struct block_form block_plain = {
    .name = "plain", .dt = DT_F32, .rows = ROWS_256, .cols = COLS_256, .left = ROWS_256,
    .right = COLS_256,
    .cuts = { 96, 256, 1 << 18, 384, 8, 8192, 1 << 20, 256, 0 }, .runs = always,
    .multiply = multiply_plain,
};
