/* attention_bf16.c: attention's tiles in bf16, multiplied by AVX512-BF16's dot products of pairs: a
 * word of the left operand, two elements along k, goes to all lanes, and each lane adds both
 * products to its fp32 sum. The block of sums is 4 rows x up to 64 columns. */
#include "kernels/attention_form.h"

// c (ROWS, 16 nv) += a b
AVX512BF16 __attribute__((always_inline)) static inline void
block(float *c, size_t ldc, struct operand a, const word *b, size_t ldb, size_t k, const int nv)
{
    __m512 sum[ROWS][4];

    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < nv; v++)
            sum[r][v] = _mm512_loadu_ps(c + (size_t)r * ldc + 16 * v);
    for (size_t i = 0; i < k; i++, a.p += a.col, b += ldb)
        for (int r = 0; r < ROWS; r++) {
            __m512i x = _mm512_set1_epi32((int)a.p[(size_t)r * a.row]);

            for (int v = 0; v < nv; v++)
                sum[r][v] = _mm512_dpbf16_ps(sum[r][v], (__m512bh)x,
                                             (__m512bh)_mm512_loadu_si512(b + 16 * v));
        }
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < nv; v++)
            _mm512_storeu_ps(c + (size_t)r * ldc + 16 * v, sum[r][v]);
}

AVX512BF16 static void mm_add(float *c, size_t ldc, struct operand a, const word *b, size_t ldb,
                              size_t m, size_t n, size_t k)
{
    mm_blocks(block, c, ldc, a, b, ldb, (size_t[]){ m, n, k });
}

void attention_bf16_load(word *rows, const void *x, enum dtype dt, size_t stride, size_t have,
                         size_t n, size_t width)
{
    bf16       *out = (bf16 *)rows;
    const bf16 *in  = x;

    (void)dt;
    for (size_t i = 0; i < TILE; i++, out += width) {
        size_t m = i < have ? n : 0;

        if (i + AHEAD < have)
            for (size_t j = 0; j < n; j += 32)
                __builtin_prefetch(in + (i + AHEAD) * stride + j);
        if (m > 0)
            memcpy(out, in + i * stride, m * sizeof *out);
        memset(out + m, 0, (width - m) * sizeof *out);
    }
}

AVX512BF16 void attention_bf16_fold(word *out, const word *rows, size_t width)
{
    const bf16 *x = (const bf16 *)rows;

    for (size_t i = 0; i < TILE; i += 2, x += 2 * width, out += width)
        for (size_t j = 0; j < width; j += 16) {
            __m256i even = _mm256_loadu_si256((const __m256i *)(const void *)(x + j));
            __m256i odd  = _mm256_loadu_si256((const __m256i *)(const void *)(x + width + j));

            _mm512_storeu_si512(out + j, bf16_pairs(even, odd));
        }
}

AVX512BF16 static void narrow(word *rows, word *cols, const float *s)
{
    for (size_t i = 0; i < TILE; i += 2, s += 2 * TILE)
        for (size_t j = 0; j < TILE; j += 16) {
            __m256i even = (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(s + j));
            __m256i odd  = (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(s + TILE + j));

            if (rows) {
                _mm256_storeu_si256((__m256i *)(void *)(rows + (i * TILE + j) / 2), even);
                _mm256_storeu_si256((__m256i *)(void *)(rows + ((i + 1) * TILE + j) / 2), odd);
            }
            if (cols)
                _mm512_storeu_si512(cols + i / 2 * TILE + j, bf16_pairs(even, odd));
        }
}

static int runs(enum dtype dt) { return dt == DT_BF16 && simd_avx512_bf16(); }

const struct attention_form attention_bf16 = {
    .name = "bf16", .depth = 2, .runs = runs, .load = attention_bf16_load,
    .fold = attention_bf16_fold, .narrow = narrow, .mm_add = mm_add,
};
