/* attention_bf16.c: multiplies attention's tiles in bf16 with AVX512-BF16's dot products of pairs,
 * and computes softmax between the products. A word of the left operand, two elements along k, goes
 * to all lanes, and each lane adds both products to its fp32 sum. The block of sums is 4 rows x up
 * to 64 columns. */
#include "kernels/attention/attention_form.h"

#include <math.h>

AVX512BF16 __attribute__((always_inline)) static inline void
block(const struct tile_product *p, float *c, const word *a, const word *b, const int nv)
{
    const size_t row = p->a.row, col = p->a.col, ldb = p->ldb, ldc = p->ldc;
    __m512       sum[ROWS][4];

    for (size_t r = 0; r < ROWS; r++)
        for (int v = 0; v < nv; v++)
            sum[r][v] = p->fresh ? _mm512_setzero_ps() : _mm512_loadu_ps(c + r * ldc + 16 * v);
    for (size_t i = p->k; i > 0; i--, a += col, b += ldb)
        for (size_t r = 0; r < ROWS; r++) {
            __m512i x = _mm512_set1_epi32((int)a[r * row]);

            for (int v = 0; v < nv; v++)
                sum[r][v] = _mm512_dpbf16_ps(sum[r][v], (__m512bh)x,
                                             (__m512bh)_mm512_loadu_si512(b + 16 * v));
        }
    for (size_t r = 0; r < ROWS; r++)
        for (int v = 0; v < nv; v++)
            _mm512_storeu_ps(c + r * ldc + 16 * v, sum[r][v]);
}

AVX512BF16 static void multiply(const struct tile_product *p) { multiply_blocks(block, p); }

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

/* ---- softmax, in units of log2 ---- */

enum { LANES = 16, ACROSS = TILE / LANES }; // vectors of a row of scores

/* 2^t. Below -126, where it would be subnormal, it is 0. NaN stays NaN. 2^t = 2^n 2^f with n the
 * nearest integer, and 2^f by a polynomial (Remez, relative error < 5e-7 in floats). That is
 * enough, because the result is rounded to 2^-9. */
AVX512BF16 __attribute__((always_inline)) static inline __m512 exp2_low(__m512 t)
{
    const __m512 round_magic = _mm512_set1_ps(12582912.0f); // vexp.h
    __mmask16    some = _mm512_cmp_ps_mask(t, _mm512_set1_ps(-126.0f), _CMP_NLT_UQ);
    __m512       n = _mm512_sub_ps(_mm512_add_ps(t, round_magic), round_magic);
    __m512       f = _mm512_sub_ps(t, n), p = _mm512_set1_ps(0x1.23a604p-10f);

    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.3cbea8p-7f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.c74322p-5f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.ebfa4ep-3f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.62e39ep-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
    return _mm512_maskz_scalef_ps(some, p, n);
}

/* The lanes (queries) of vector v that see key j of the diagonal tile. */
static inline __mmask16 seen(int j, int v, int diagonal)
{
    int first = j - v * LANES; // the first query that sees it

    if (!diagonal || first <= 0)
        return 0xffff;
    if (first >= LANES)
        return 0;
    return (__mmask16)(0xffffu << first & 0xffffu);
}

/* Words of pairs: lane by lane, `even` in the lower halves and `odd` in the upper ones. */
AVX512BF16 __attribute__((always_inline)) static inline __m512i pairs(__m512 even, __m512 odd)
{
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9,
                                           24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1,
                                           16, 0);

    return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(odd, even));
}

/* The maximum of vector v's scores. */
AVX512BF16 static __m512 column_max(const float (*s)[TILE], int v, int diagonal)
{
    __m512 max = _mm512_set1_ps(-INFINITY);

    for (int j = 0; j < TILE; j++)
        max = _mm512_mask_max_ps(max, seen(j, v, diagonal), max,
                                 _mm512_loadu_ps(s[j] + v * LANES));
    return max;
}

/* Row j's probabilities in vector v. */
AVX512BF16 __attribute__((always_inline)) static inline __m512
probabilities(const float (*s)[TILE], int j, int v, __m512 scale, __m512 minus_max,
              const int diagonal)
{
    __m512 p = exp2_low(_mm512_fmadd_ps(_mm512_loadu_ps(s[j] + v * LANES), scale, minus_max));

    return diagonal ? _mm512_maskz_mov_ps(seen(j, v, 1), p) : p;
}

AVX512BF16 __attribute__((always_inline)) static inline void
softmax_as(word *out, float (*s)[TILE], const struct running *r, const struct tile *t,
           const int diagonal, const int dropping)
{
    const __m512 scale = _mm512_set1_ps(t->scale);

    for (int v = 0; v < ACROSS; v++) {
        __m512 old = _mm512_loadu_ps(r->max + v * LANES), max, corr, sum;

        max  = _mm512_max_ps(old, _mm512_mul_ps(column_max(s, v, diagonal), scale));
        corr = exp2_low(_mm512_sub_ps(old, max));
        sum  = _mm512_mul_ps(_mm512_loadu_ps(r->sum + v * LANES), corr);
        _mm512_storeu_ps(r->max + v * LANES, max);
        _mm512_storeu_ps(r->corr + v * LANES, corr);
        max = _mm512_sub_ps(_mm512_setzero_ps(), max);
        for (int j = 0; j < TILE; j += 2) {
            __m512 even = probabilities(s, j, v, scale, max, diagonal);
            __m512 odd  = probabilities(s, j + 1, v, scale, max, diagonal);

            sum = _mm512_add_ps(_mm512_add_ps(sum, even), odd);
            if (dropping) {
                const float *factor = t->drop + j * TILE + v * LANES;

                even = _mm512_mul_ps(even, _mm512_loadu_ps(factor));
                odd  = _mm512_mul_ps(odd, _mm512_loadu_ps(factor + TILE));
            }
            _mm512_storeu_si512(out + j / 2 * TILE + v * LANES, pairs(even, odd));
        }
        _mm512_storeu_ps(r->sum + v * LANES, sum);
    }
}

AVX512BF16 const word *attention_bf16_softmax(word *out, float (*s)[TILE], const struct running *r,
                                              const struct tile *t)
{
    if (t->drop)
        softmax_as(out, s, r, t, t->diagonal, 1);
    else if (t->diagonal)
        softmax_as(out, s, r, t, 1, 0);
    else
        softmax_as(out, s, r, t, 0, 0);
    return out;
}

/* A vector of queries in backward, and the values for one key. */
struct backward_queries { __m512 minus_lse, delta; };
struct backward_vector { __m512 p, ds; };

AVX512BF16 __attribute__((always_inline)) static inline struct backward_vector
backward_at(const struct backward_queries *q, __m512 score, __m512 dp, const float *drop,
            __mmask16 mask, const float *scales)
{
    struct backward_vector b;

    b.p = exp2_low(_mm512_fmadd_ps(score, _mm512_set1_ps(scales[0]), q->minus_lse));
    b.p = _mm512_maskz_mov_ps(mask, b.p);
    if (drop)
        dp = _mm512_mul_ps(dp, _mm512_loadu_ps(drop));
    dp = _mm512_mul_ps(_mm512_sub_ps(dp, q->delta), _mm512_set1_ps(scales[1]));
    b.ds = _mm512_mul_ps(b.p, dp);
    if (drop)
        b.p = _mm512_mul_ps(b.p, _mm512_loadu_ps(drop)); // for dv
    return b;
}

/* Two vectors are a register of a rounded row, two rows one of pairs. */
AVX512BF16 __attribute__((always_inline)) static inline void
backward_as(const struct gradients_to *to, const float (*p)[TILE], const float (*ds)[TILE],
            const struct tile *t, const int diagonal, const int dropping)
{
    const float scales[2] = { t->scale, t->scale * LN_2 }; // for scores, and for their gradients
    const __m512 minus_log2_e = _mm512_set1_ps(-0x1.715476p+0f);

    for (int v = 0; v < ACROSS; v += 2) {
        struct backward_queries q[2];

        for (int w = 0; w < 2; w++) {
            q[w].minus_lse = _mm512_mul_ps(_mm512_loadu_ps(t->lse + (v + w) * LANES), minus_log2_e);
            q[w].delta = _mm512_loadu_ps(t->delta + (v + w) * LANES);
        }
        for (int j = 0; j < TILE; j += 2) {
            size_t at = (size_t)j * (TILE / 2) + (size_t)v * (LANES / 2);
            struct backward_vector b[2][2];

            for (int r = 0; r < 2; r++) {
                for (int w = 0; w < 2; w++) {
                    int i = (v + w) * LANES;

                    b[r][w] = backward_at(&q[w], _mm512_loadu_ps(p[j + r] + i),
                                          _mm512_loadu_ps(ds[j + r] + i),
                                          dropping ? t->drop + (j + r) * TILE + i : NULL,
                                          seen(j + r, v + w, diagonal), scales);
                }
                _mm512_storeu_si512(to->p + at + r * (TILE / 2),
                                    (__m512i)_mm512_cvtne2ps_pbh(b[r][1].p, b[r][0].p));
                _mm512_storeu_si512(to->ds + at + r * (TILE / 2),
                                    (__m512i)_mm512_cvtne2ps_pbh(b[r][1].ds, b[r][0].ds));
            }
            for (int w = 0; w < 2; w++)
                _mm512_storeu_si512(to->ds_folded + j / 2 * TILE + (v + w) * LANES,
                                    pairs(b[0][w].ds, b[1][w].ds));
        }
    }
}

AVX512BF16 struct gradients attention_bf16_softmax_backward(const struct gradients_to *to,
                                                            float (*p)[TILE], float (*ds)[TILE],
                                                            const struct tile *t)
{
    if (t->drop)
        backward_as(to, p, ds, t, t->diagonal, 1);
    else if (t->diagonal)
        backward_as(to, p, ds, t, 1, 0);
    else
        backward_as(to, p, ds, t, 0, 0);
    return (struct gradients){ to->p, to->ds, to->ds_folded };
}

static int runs(enum dtype dt) { return dt == DT_BF16 && simd_avx512_bf16(); }

const struct attention_form attention_bf16 = {
    .name = "bf16", .depth = 2, .strip = STRIP, .runs = runs, .load = attention_bf16_load,
    .fold = attention_bf16_fold, .multiply = multiply, .softmax = attention_bf16_softmax,
    .unit = LN_2, .softmax_backward = attention_bf16_softmax_backward,
};
