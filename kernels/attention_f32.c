/* attention_f32.c: attention's tiles in fp32: loaded widened, multiplied by blocks of sums that
 * stay in registers while k runs. AVX2 has 16 registers: 6 rows x 16 columns, 4 rows where 6 do not
 * come out even. AVX-512 has 32: 4 rows x up to 64 columns. */
#include "kernels/attention_form.h"

// c (ROWS, 16 nv) += a b
__attribute__((target("avx512f"), always_inline)) static inline void
block_avx512(float *c, size_t ldc, struct operand a, const word *b, size_t ldb, size_t k,
             const int nv)
{
    __m512 sum[ROWS][4];

    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < nv; v++)
            sum[r][v] = _mm512_loadu_ps(c + (size_t)r * ldc + 16 * v);
    for (size_t i = 0; i < k; i++, a.p += a.col, b += ldb)
        for (int r = 0; r < ROWS; r++) {
            __m512 x = _mm512_set1_ps(((const float *)a.p)[(size_t)r * a.row]);

            for (int v = 0; v < nv; v++)
                sum[r][v] = _mm512_fmadd_ps(x, _mm512_loadu_ps(b + 16 * v), sum[r][v]);
        }
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < nv; v++)
            _mm512_storeu_ps(c + (size_t)r * ldc + 16 * v, sum[r][v]);
}

__attribute__((target("avx512f"))) static void mm_avx512(float *c, size_t ldc, struct operand a,
                                                         const word *b, size_t ldb, size_t m,
                                                         size_t n, size_t k)
{
    mm_blocks(block_avx512, c, ldc, a, b, ldb, (size_t[]){ m, n, k });
}

// c (rows, 16) += a b
SIMD_INLINE void block_avx2(float *c, size_t ldc, struct operand left, const word *right,
                            size_t ldb, size_t k, const int rows)
{
    const float *a = (const float *)left.p, *b = (const float *)right;
    const float *a3 = a + 3 * left.row; // two pointers reach six rows
    __m256       sum[6][2];

    for (int r = 0; r < rows; r++)
        for (int v = 0; v < 2; v++)
            sum[r][v] = _mm256_loadu_ps(c + (size_t)r * ldc + 8 * v);
    for (size_t i = 0; i < k; i++, a += left.col, a3 += left.col, b += ldb) {
        __m256 b0 = _mm256_loadu_ps(b), b1 = _mm256_loadu_ps(b + 8);

        for (int r = 0; r < rows; r++) {
            __m256 x = _mm256_broadcast_ss(r < 3 ? a + (size_t)r * left.row
                                                 : a3 + (size_t)(r - 3) * left.row);

            sum[r][0] = _mm256_fmadd_ps(x, b0, sum[r][0]);
            sum[r][1] = _mm256_fmadd_ps(x, b1, sum[r][1]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < 2; v++)
            _mm256_storeu_ps(c + (size_t)r * ldc + 8 * v, sum[r][v]);
}

static void mm_avx2(float *c, size_t ldc, struct operand a, const word *b, size_t ldb, size_t m,
                    size_t n, size_t k)
{
    for (size_t rows; m > 0; m -= rows, c += rows * ldc, a.p += rows * a.row) {
        rows = m % 6 ? 4 : 6;
        for (size_t j = 0; j < n; j += 16)
            if (rows == 6)
                block_avx2(c + j, ldc, a, b + j, ldb, k, 6);
            else
                block_avx2(c + j, ldc, a, b + j, ldb, k, 4);
    }
}

static void mm_add(float *c, size_t ldc, struct operand a, const word *b, size_t ldb, size_t m,
                   size_t n, size_t k)
{
    (__builtin_cpu_supports("avx512f") ? mm_avx512 : mm_avx2)(c, ldc, a, b, ldb, m, n, k);
}

/* Rows are short and pages apart, so the CPU does not see the next ones coming. */
SIMD_CLONES static void load(word *rows, const void *x, enum dtype dt, size_t stride, size_t have,
                             size_t n, size_t width)
{
    float *out = (float *)rows;

    for (size_t i = 0; i < TILE; i++, out += width) {
        size_t m = i < have ? n : 0;

        if (i + AHEAD < have)
            for (size_t j = 0; j < n; j += 64 / dtype_bytes(dt))
                __builtin_prefetch((const char *)x + ((i + AHEAD) * stride + j) * dtype_bytes(dt));
        row_widen(out, x, dt, i * stride, m, width);
    }
}

static int runs(enum dtype dt) { return dt == DT_F32 || dt == DT_BF16; }

const struct attention_form attention_f32 = {
    .name = "fp32", .depth = 1, .runs = runs, .load = load, .mm_add = mm_add};
