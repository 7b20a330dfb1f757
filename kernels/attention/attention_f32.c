/* attention_f32.c: multiplies attention's tiles in fp32, and computes softmax between the products.
 * Loads widen to fp32. Blocks of sums stay in registers while k runs. AVX2 has 16 registers: 6 rows
 * x 16 columns, or 4 rows if rows are no multiple of 6. AVX-512 has 32: 4 rows x up to 64
 * columns. */
#include "kernels/attention/attention_form.h"
#include "kernels/vexp.h"

#include <math.h>

__attribute__((target("avx512f"), always_inline)) static inline void
block_avx512(const struct tile_product *p, float *c, const word *left, const word *right,
             const int nv)
{
    const float *a = (const float *)left, *b = (const float *)right;
    const size_t row = p->a.row, col = p->a.col, ldb = p->ldb, ldc = p->ldc;
    __m512       sum[ROWS][4];

    for (size_t r = 0; r < ROWS; r++)
        for (int v = 0; v < nv; v++)
            sum[r][v] = p->fresh ? _mm512_setzero_ps() : _mm512_loadu_ps(c + r * ldc + 16 * v);
    for (size_t i = p->k; i > 0; i--, a += col, b += ldb)
        for (size_t r = 0; r < ROWS; r++) {
            __m512 x = _mm512_set1_ps(a[r * row]);

            for (int v = 0; v < nv; v++)
                sum[r][v] = _mm512_fmadd_ps(x, _mm512_loadu_ps(b + 16 * v), sum[r][v]);
        }
    for (size_t r = 0; r < ROWS; r++)
        for (int v = 0; v < nv; v++)
            _mm512_storeu_ps(c + r * ldc + 16 * v, sum[r][v]);
}

__attribute__((target("avx512f"))) static void multiply_avx512(const struct tile_product *p)
{
    multiply_blocks(block_avx512, p);
}

// Multiplies (rows, 16) of p at c, left, right.
SIMD_INLINE void block_avx2(const struct tile_product *p, float *c, const word *left,
                            const word *right, const size_t rows)
{
    const size_t row = p->a.row, col = p->a.col, ldb = p->ldb, ldc = p->ldc;
    const float *a = (const float *)left, *b = (const float *)right;
    const float *a3 = a + 3 * row; // two pointers reach six rows
    __m256       sum[6][2];

    for (size_t r = 0; r < rows; r++)
        for (int v = 0; v < 2; v++)
            sum[r][v] = p->fresh ? _mm256_setzero_ps() : _mm256_loadu_ps(c + r * ldc + 8 * v);
    for (size_t i = p->k; i > 0; i--, a += col, a3 += col, b += ldb) {
        __m256 b0 = _mm256_loadu_ps(b), b1 = _mm256_loadu_ps(b + 8);

        for (size_t r = 0; r < rows; r++) {
            __m256 x = _mm256_broadcast_ss(r < 3 ? a + r * row : a3 + (r - 3) * row);

            sum[r][0] = _mm256_fmadd_ps(x, b0, sum[r][0]);
            sum[r][1] = _mm256_fmadd_ps(x, b1, sum[r][1]);
        }
    }
    for (size_t r = 0; r < rows; r++)
        for (int v = 0; v < 2; v++)
            _mm256_storeu_ps(c + r * ldc + 8 * v, sum[r][v]);
}

static void multiply_avx2(const struct tile_product *p)
{
    for (size_t i = 0, rows; i < p->m; i += rows) {
        float      *c = p->c + i * p->ldc;
        const word *a = p->a.p + i * p->a.row;

        rows = (p->m - i) % 6 ? 4 : 6;
        for (size_t j = 0; j < p->n; j += 16)
            if (rows == 6)
                block_avx2(p, c + j, a, p->b + j, 6);
            else
                block_avx2(p, c + j, a, p->b + j, 4);
    }
}

static void multiply(const struct tile_product *p)
{
    (__builtin_cpu_supports("avx512f") ? multiply_avx512 : multiply_avx2)(p);
}

/* Rows are short and pages apart, so this prefetches: the CPU does not foresee the next ones. */
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

/* A masked score is -inf; the running maximum begins finite. */
SIMD_INLINE float score(const float (*s)[TILE], int j, int i, float scale, const int diagonal)
{
    return diagonal && j > i ? -INFINITY : s[j][i] * scale;
}

SIMD_INLINE void softmax_as(float (*restrict s)[TILE], float *restrict max, float *restrict sum,
                            float *restrict corr, float scale, const int diagonal)
{
    float old[TILE];

    for (int i = 0; i < TILE; i++)
        old[i] = max[i];
    for (int j = 0; j < TILE; j++)
        for (int i = 0; i < TILE; i++) {
            float x = score(s, j, i, scale, diagonal);

            max[i] = x > max[i] ? x : max[i];
        }
    for (int i = 0; i < TILE; i++) {
        corr[i] = vexpf_low(old[i] - max[i]);
        sum[i] *= corr[i];
    }
    for (int j = 0; j < TILE; j++)
        for (int i = 0; i < TILE; i++) {
            float p = vexpf_low(score(s, j, i, scale, diagonal) - max[i]);

            s[j][i] = p;
            sum[i] += p;
        }
}

SIMD_CLONES static void softmax_tile(float (*s)[TILE], const struct running *r, float scale,
                                     int diagonal)
{
    if (diagonal)
        softmax_as(s, r->max, r->sum, r->corr, scale, 1);
    else
        softmax_as(s, r->max, r->sum, r->corr, scale, 0);
}

SIMD_CLONES static void tile_drop(float *restrict x, const float *restrict factor)
{
    for (size_t i = 0; i < TILE * TILE; i++)
        x[i] *= factor[i];
}

static const word *softmax(word *out, float *s, const struct running *r, const struct tile *t)
{
    (void)out;
    softmax_tile((float (*)[TILE])s, r, t->scale, t->diagonal);
    if (t->drop)
        tile_drop(s, t->drop);
    return (const word *)s;
}

SIMD_INLINE void backward_as(float (*restrict p)[TILE], float (*restrict ds)[TILE],
                             const struct tile *t, const int diagonal)
{
    const float *lse = t->lse, *delta = t->delta, scale = t->scale;

    for (int j = 0; j < TILE; j++)
        for (int i = 0; i < TILE; i++) {
            float e = vexpf_low(p[j][i] * scale - lse[i]);

            e        = diagonal && j > i ? 0.0f : e;
            p[j][i]  = e;
            ds[j][i] = e * (ds[j][i] - delta[i]) * scale;
        }
}

SIMD_CLONES static void backward_tile(float (*p)[TILE], float (*ds)[TILE], const struct tile *t)
{
    if (t->diagonal)
        backward_as(p, ds, t, 1);
    else
        backward_as(p, ds, t, 0);
}

static struct gradients softmax_backward(const struct gradients_to *to, float *p, float *ds,
                                         const struct tile *t)
{
    (void)to;
    if (t->drop)
        tile_drop(ds, t->drop);
    backward_tile((float (*)[TILE])p, (float (*)[TILE])ds, t);
    if (t->drop)
        tile_drop(p, t->drop); // for dv
    return (struct gradients){ (const word *)p, (const word *)ds, (const word *)ds };
}

static int runs(enum dtype dt) { return dt == DT_F32 || dt == DT_BF16; }

const struct attention_form attention_f32 = {
    .name = "fp32", .depth = 1, .strip = STRIP, .forward = WHOLE, .backward = WHOLE, .runs = runs,
    .load = load, .multiply = multiply, .softmax = softmax, .unit = 1.0f,
    .softmax_backward = softmax_backward };
