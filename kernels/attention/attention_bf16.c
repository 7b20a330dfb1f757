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

AVX512BF16 void attention_bf16_load(word *rows, const void *x, enum dtype dt, size_t stride,
                                    size_t have, size_t n, size_t width)
{
    bf16       *out = (bf16 *)rows;
    const bf16 *in  = x;

    (void)dt;
    for (size_t i = 0; i < TILE; i++, out += width) {
        size_t m = i < have ? n : 0;

        if (i + AHEAD < have)
            for (size_t j = 0; j < n; j += 32)
                __builtin_prefetch(in + (i + AHEAD) * stride + j);
        for (size_t j = 0; j < width; j += 16) {
            __mmask16 some = (__mmask16)(j + 16 <= m ? 0xffff : j < m ? (1u << (m - j)) - 1 : 0);

            _mm256_storeu_epi16(out + j, _mm256_maskz_loadu_epi16(some, in + i * stride + j));
        }
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

enum { LANES = 16 };

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

/* The lanes (queries) that see key j of the diagonal tile, of the vector from query i on. */
static inline __mmask16 seen(size_t j, size_t i)
{
    if (j <= i)
        return 0xffff;
    return (__mmask16)(j - i < LANES ? 0xffffu << (j - i) & 0xffffu : 0);
}

/* Words of pairs: lane by lane, `even` in the lower halves and `odd` in the upper ones. */
AVX512BF16 __attribute__((always_inline)) static inline __m512i pairs(__m512 even, __m512 odd)
{
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9,
                                           24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1,
                                           16, 0);

    return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(odd, even));
}

/* The maxima of 16 queries from `first` on: four chains, so that none waits for itself. */
AVX512BF16 __attribute__((always_inline)) static inline __m512
column_max(const float *s, size_t ld, size_t first, size_t keys, const int diagonal)
{
    __m512 max[4];

    for (size_t c = 0; c < 4; c++)
        max[c] = _mm512_set1_ps(-INFINITY);
    for (size_t j = 0; j < keys; j += 4)
        for (size_t c = 0; c < 4; c++)
            max[c] = _mm512_mask_max_ps(max[c], diagonal ? seen(j + c, first) : 0xffff, max[c],
                                        _mm512_loadu_ps(s + (j + c) * ld));
    return _mm512_max_ps(_mm512_max_ps(max[0], max[1]), _mm512_max_ps(max[2], max[3]));
}

/* The probabilities of key j and 16 queries from `first` on, whose scores are s. */
AVX512BF16 __attribute__((always_inline)) static inline __m512
probabilities(const float *s, size_t j, size_t first, __m512 scale, __m512 minus_max,
              const int diagonal)
{
    __m512 p = exp2_low(_mm512_fmadd_ps(_mm512_loadu_ps(s), scale, minus_max));

    return diagonal ? _mm512_maskz_mov_ps(seen(j, first), p) : p;
}

AVX512BF16 __attribute__((always_inline)) static inline void
softmax_as(word *out, const float *s, const struct running *r, const struct tile *t,
           const int diagonal, const int dropping)
{
    const __m512 scale = _mm512_set1_ps(t->scale);
    const size_t keys = t->at.keys, ld = t->at.ld;

    for (size_t i = 0; i < t->at.queries; i += LANES) {
        __m512 old = _mm512_loadu_ps(r->max + i), max, corr, sum;
        size_t first = t->at.first + i;

        max  = _mm512_mul_ps(column_max(s + i, ld, first, keys, diagonal), scale);
        max  = _mm512_max_ps(old, max);
        corr = exp2_low(_mm512_sub_ps(old, max));
        sum  = _mm512_mul_ps(_mm512_loadu_ps(r->sum + i), corr);
        _mm512_storeu_ps(r->max + i, max);
        _mm512_storeu_ps(r->corr + i, corr);
        max = _mm512_sub_ps(_mm512_setzero_ps(), max);
        for (size_t j = 0; j < keys; j += 2) {
            const float *row = s + j * ld + i;
            __m512 even = probabilities(row, j, first, scale, max, diagonal);
            __m512 odd  = probabilities(row + ld, j + 1, first, scale, max, diagonal);

            sum = _mm512_add_ps(_mm512_add_ps(sum, even), odd);
            if (dropping) {
                const float *factor = t->drop + j * TILE + i;

                even = _mm512_mul_ps(even, _mm512_loadu_ps(factor));
                odd  = _mm512_mul_ps(odd, _mm512_loadu_ps(factor + TILE));
            }
            _mm512_storeu_si512(out + j / 2 * ld + i, pairs(even, odd));
        }
        _mm512_storeu_ps(r->sum + i, sum);
    }
}

AVX512BF16 const word *attention_bf16_softmax(word *out, float *s, const struct running *r,
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
backward_as(const struct gradients_to *to, const float *p, const float *ds, const struct tile *t,
            const int diagonal, const int dropping)
{
    const float scales[2] = { t->scale, t->scale * LN_2 }; // for scores, and for their gradients
    const __m512 minus_log2_e = _mm512_set1_ps(-0x1.715476p+0f);
    const size_t ld = t->at.ld, first = t->at.first, key = t->at.key;

    for (size_t i = 0; i < t->at.queries; i += 2 * LANES) {
        struct backward_queries q[2];

        for (size_t w = 0; w < 2; w++) {
            q[w].minus_lse = _mm512_mul_ps(_mm512_loadu_ps(t->lse + i + w * LANES), minus_log2_e);
            q[w].delta = _mm512_loadu_ps(t->delta + i + w * LANES);
        }
        for (size_t j = 0; j < t->at.keys; j += 2) {
            size_t at = (key + j) * (TILE / 2) + (first + i) / 2;
            struct backward_vector b[2][2];

            for (size_t r = 0; r < 2; r++) {
                for (size_t w = 0; w < 2; w++) {
                    size_t col = i + w * LANES, from = (j + r) * ld + col;

                    b[r][w] = backward_at(
                        &q[w], _mm512_loadu_ps(p + from), _mm512_loadu_ps(ds + from),
                        dropping ? t->drop + (j + r) * TILE + col : NULL,
                        diagonal ? seen(key + j + r, first + col) : 0xffff, scales);
                }
                _mm512_storeu_si512(to->p + at + r * (TILE / 2),
                                    (__m512i)_mm512_cvtne2ps_pbh(b[r][1].p, b[r][0].p));
                _mm512_storeu_si512(to->ds + at + r * (TILE / 2),
                                    (__m512i)_mm512_cvtne2ps_pbh(b[r][1].ds, b[r][0].ds));
            }
            for (size_t w = 0; w < 2; w++)
                _mm512_storeu_si512(to->ds_folded + (key + j) / 2 * ld + i + w * LANES,
                                    pairs(b[0][w].ds, b[1][w].ds));
        }
    }
}

AVX512BF16 struct gradients attention_bf16_softmax_backward(const struct gradients_to *to, float *p,
                                                            float *ds, const struct tile *t)
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
    .name = "bf16", .depth = 2, .strip = STRIP, .forward = WHOLE, .backward = WHOLE, .runs = runs,
    .load = attention_bf16_load, .fold = attention_bf16_fold, .multiply = multiply,
    .softmax = attention_bf16_softmax, .unit = LN_2,
    .softmax_backward = attention_bf16_softmax_backward,
};
