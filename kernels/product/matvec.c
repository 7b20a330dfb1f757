/* matvec.c: multiplies few rows by a matrix. This takes as long as reading the matrix: threads
 * share out its columns (for logits, its rows). Each reads its part once from beginning to end,
 * DEPTH rows at a time, and uses it for all rows of a. AVX2 is enough, because memory is slower. */
#include "kernels/product/matvec.h"

#include "data/base/round.h"
#include "kernels/simd.h"

#include <immintrin.h>
#include <omp.h>

enum {
    DEPTH = 8,  // rows of b that are added to a sum at once
    WIDE  = 8,  // floats of a register
    LANES = 16, // partial sums of a logit
    ROWS  = 4,  // rows of a that are multiplied with a row of b while it is in registers
};

SIMD_INLINE __m256 load(const void *p, enum dtype dt, size_t i)
{
    if (dt == DT_F32)
        return _mm256_loadu_ps((const float *)p + i);
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(
                              (const __m128i *)(const void *)((const bf16 *)p + i))),
                          16));
}

static void widen(float *out, const void *x, enum dtype dt, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = dtype_get(x, dt, i);
}

struct columns { size_t from, to; };

/* Adds to sum (m, n), for these columns, a (m, k)'s columns [i, i + depth) times those rows of
 * b. */
SIMD_INLINE void add_rows(float *sum, const float *a, const struct matvec *p, enum dtype dt,
                          size_t i, const size_t depth, struct columns of)
{
    const size_t m = p->m, n = p->n, k = p->k;
    const void  *b = p->b;
    size_t       j = of.from;

    for (; j + WIDE <= of.to; j += WIDE) {
        __m256 row[DEPTH];

        for (size_t d = 0; d < depth; d++)
            row[d] = load(b, dt, (i + d) * n + j);
        for (size_t r = 0; r < m; r++) {
            __m256 s = _mm256_loadu_ps(sum + r * n + j);

            for (size_t d = 0; d < depth; d++)
                s = _mm256_fmadd_ps(_mm256_broadcast_ss(a + r * k + i + d), row[d], s);
            _mm256_storeu_ps(sum + r * n + j, s);
        }
    }
    for (; j < of.to; j++)
        for (size_t r = 0; r < m; r++)
            for (size_t d = 0; d < depth; d++)
                sum[r * n + j] = __builtin_fmaf(a[r * k + i + d], dtype_get(b, dt, (i + d) * n + j),
                                                sum[r * n + j]);
}

/* Computes these columns of the whole product, into sum. */
SIMD_INLINE void columns(float *sum, const float *a, const struct matvec *p, enum dtype dt,
                         struct columns of)
{
    size_t i = 0, k = p->k;

    for (size_t r = 0; r < p->m; r++)
        memset(sum + r * p->n + of.from, 0, (of.to - of.from) * sizeof *sum);
    for (; i + DEPTH <= k; i += DEPTH)
        add_rows(sum, a, p, dt, i, DEPTH, of);
    for (; i < k; i++)
        add_rows(sum, a, p, dt, i, 1, of);
}

void matvec_forward(void *c, enum dtype c_dt, const struct matvec *p)
{
    size_t m = p->m, n = p->n;
    float *a = p->scratch, *sum = a + m * p->k;

    widen(a, p->a, p->dt, m * p->k);
#pragma omp parallel
    {
        size_t threads = (size_t)omp_get_num_threads(), t = (size_t)omp_get_thread_num();
        size_t share = round_up(div_up(n, threads), WIDE), from = size_min(t * share, n);
        struct columns of = { from, size_min(from + share, n) };

        p->dt == DT_BF16 ? columns(sum, a, p, DT_BF16, of) : columns(sum, a, p, DT_F32, of);
        for (size_t r = 0; r < m; r++)
            for (size_t j = of.from; j < of.to; j++)
                dtype_put(c, c_dt, r * n + j, sum[r * n + j] + dtype_get(p->bias, p->dt, j));
    }
}

/* Computes c[r * n] = row r of a (rows, k) times x (k), in lanes that are added up by halves. */
SIMD_INLINE void dots(float *c, size_t n, const float *a, const void *x, enum dtype dt, size_t k,
                      const size_t rows)
{
    __m256 s[ROWS][LANES / WIDE];
    size_t end = k / LANES * LANES;

    for (size_t r = 0; r < rows; r++)
        s[r][0] = s[r][1] = _mm256_setzero_ps();
    for (size_t i = 0; i < end; i += LANES) {
        __m256 x0 = load(x, dt, i), x1 = load(x, dt, i + WIDE);

        for (size_t r = 0; r < rows; r++) {
            s[r][0] = _mm256_fmadd_ps(_mm256_loadu_ps(a + r * k + i), x0, s[r][0]);
            s[r][1] = _mm256_fmadd_ps(_mm256_loadu_ps(a + r * k + i + WIDE), x1, s[r][1]);
        }
    }
    for (size_t r = 0; r < rows; r++) {
        float lane[WIDE];

        _mm256_storeu_ps(lane, _mm256_add_ps(s[r][0], s[r][1]));
        float sum = ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
                    ((lane[1] + lane[5]) + (lane[3] + lane[7]));
        for (size_t i = end; i < k; i++)
            sum = __builtin_fmaf(a[r * k + i], dtype_get(x, dt, i), sum);
        c[r * n] = sum;
    }
}

/* Computes these rows of b times all rows of a. */
SIMD_INLINE void logits(float *c, const float *a, const struct matvec *p, enum dtype dt,
                        struct columns of)
{
    const size_t m = p->m, n = p->n, k = p->k;

    for (size_t j = of.from; j < of.to; j++) {
        const void *x = dtype_at(p->b, dt, j * k);
        size_t      r = 0;

        for (; r + ROWS <= m; r += ROWS)
            dots(c + r * n + j, n, a + r * k, x, dt, k, ROWS);
        for (; r < m; r++)
            dots(c + r * n + j, n, a + r * k, x, dt, k, 1);
    }
}

void matvec_linear(void *c, enum dtype c_dt, const struct matvec *p)
{
    size_t m = p->m, n = p->n;
    float *sum = p->scratch + m * p->k;

    widen(p->scratch, p->a, p->dt, m * p->k);
#pragma omp parallel
    {
        size_t threads = (size_t)omp_get_num_threads(), t = (size_t)omp_get_thread_num();
        struct columns of = { n * t / threads, n * (t + 1) / threads };

        p->dt == DT_BF16 ? logits(sum, p->scratch, p, DT_BF16, of)
                         : logits(sum, p->scratch, p, DT_F32, of);
        for (size_t r = 0; r < m; r++)
            for (size_t j = of.from; j < of.to; j++)
                dtype_put(c, c_dt, r * n + j,
                          sum[r * n + j] + (p->bias ? dtype_get(p->bias, p->dt, j) : 0.0f));
    }
}

void matvec_logits(float *c, const struct matvec *p)
{
    size_t n = p->n;

    widen(p->scratch, p->a, p->dt, p->m * p->k);
#pragma omp parallel
    {
        size_t threads = (size_t)omp_get_num_threads(), t = (size_t)omp_get_thread_num();
        struct columns of = { n * t / threads, n * (t + 1) / threads };

        p->dt == DT_BF16 ? logits(c, p->scratch, p, DT_BF16, of)
                         : logits(c, p->scratch, p, DT_F32, of);
    }
}
