/* elementwise.c: passes whose time is that of reading and writing. Each is cut into chunks that
 * threads share out; inside a chunk a plain loop of one dtype, which the compiler turns into
 * vectors. */
#include "kernels/elementwise.h"

#include "data/base/round.h"
#include "kernels/simd.h"
#include "kernels/vexp.h"

#include <immintrin.h>
#include <omp.h>
#include <string.h>

enum {
    CHUNK = 32768, // elements of one thread's turn; of a residual RESIDUAL, since a chunk of tokens
    RESIDUAL = 8192, // has few of 32768: 16 threads had two of them or one
    VIA   = 512,   // elements that pass through fp32 at a time, between the two 16-bit formats
};

SIMD_CLONES static void f32_to_bf16(bf16 *restrict out, const float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = bf16_from_f32(x[i]);
}

SIMD_CLONES static void bf16_to_f32s(float *restrict out, const bf16 *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = bf16_to_f32(x[i]);
}

/* fp16 has instructions of its own (F16C, part of the baseline), eight elements each. */
static void f32_to_f16(uint16_t *out, const float *x, size_t n)
{
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(out + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; i++)
        out[i] = f16_from_f32(x[i]);
}

static void f16_to_f32s(float *out, const uint16_t *x, size_t n)
{
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)
                                                                  (x + i))));
    for (; i < n; i++)
        out[i] = f16_to_f32(x[i]);
}

static void from_f32(void *out, enum dtype dt, const float *x, size_t n)
{
    if (dt == DT_F32)
        memcpy(out, x, n * sizeof *x);
    else if (dt == DT_BF16)
        f32_to_bf16(out, x, n);
    else
        f32_to_f16(out, x, n);
}

static void to_f32(float *out, const void *x, enum dtype dt, size_t n)
{
    if (dt == DT_BF16)
        bf16_to_f32s(out, x, n);
    else
        f16_to_f32s(out, x, n);
}

static void convert_chunk(char *out, enum dtype out_dt, const char *x, enum dtype x_dt, size_t n)
{
    float via[VIA];

    if (x_dt == out_dt) {
        memcpy(out, x, n * dtype_bytes(x_dt));
    } else if (x_dt == DT_F32) {
        from_f32(out, out_dt, (const float *)(const void *)x, n);
    } else if (out_dt == DT_F32) {
        to_f32((float *)(void *)out, x, x_dt, n);
    } else {
        for (size_t i = 0; i < n; i += VIA) {
            size_t len = size_min(n - i, VIA);

            to_f32(via, x + 2 * i, x_dt, len);
            from_f32(out + 2 * i, out_dt, via, len);
        }
    }
}

void convert(void *out, enum dtype out_dt, const void *x, enum dtype x_dt, size_t n)
{
    if (n <= CHUNK) { // an update calls this for each piece: no team of one thread is made for it
        convert_chunk(out, out_dt, x, x_dt, n);
        return;
    }
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i += CHUNK)
        convert_chunk(dtype_at(out, out_dt, i), out_dt, dtype_at(x, x_dt, i), x_dt,
                      size_min(n - i, CHUNK));
}

void floats_zero(float *x, size_t n)
{
    if (n <= CHUNK) { // most tensors of a layer are small: no team of one thread is made for them
        memset(x, 0, n * sizeof *x);
        return;
    }
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i += CHUNK)
        memset(x + i, 0, size_min(n - i, CHUNK) * sizeof *x);
}

void copy_wide(void *out, const void *x, size_t n)
{
    enum { COPY = 1 << 18 };

#pragma omp parallel for schedule(static) if (n > COPY)
    for (size_t i = 0; i < n; i += COPY)
        memcpy((char *)out + i, (const char *)x + i, size_min(n - i, COPY));
}

SIMD_CLONES void row_add(float *out, const float *a, const float *b, size_t n)
{
#pragma omp simd // out may be a or b, which no vector minds
    for (size_t i = 0; i < n; i++)
        out[i] = a[i] + b[i];
}

void residual_add(float *out, const float *a, const float *b, size_t n)
{
#pragma omp parallel for schedule(static) if (n > RESIDUAL)
    for (size_t i = 0; i < n; i += RESIDUAL)
        row_add(out + i, a + i, b + i, size_min(n - i, RESIDUAL));
}

SIMD_CLONES static void group_f32(float *restrict sum, const float *restrict dy, size_t rows,
                                  size_t C)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < C; j++)
            sum[j] += dy[r * C + j];
}

SIMD_CLONES static void group_bf16(float *restrict sum, const bf16 *restrict dy, size_t rows,
                                   size_t C)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < C; j++)
            sum[j] += bf16_to_f32(dy[r * C + j]);
}

SIMD_CLONES static void group_narrowed(float *restrict sum, bf16 *restrict out,
                                       const float *restrict dy, size_t rows, size_t C)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < C; j++) {
            sum[j] += dy[r * C + j];
            out[r * C + j] = bf16_from_f32(dy[r * C + j]);
        }
}

size_t colsum_scratch(size_t n, size_t C) { return div_up(n, COLSUM_ROWS) * C * sizeof(float); }

void colsum_finish(float *db, const float *part, size_t n, size_t C)
{
    enum { COLUMNS = 64 };
    size_t groups = div_up(n, COLSUM_ROWS);

#pragma omp for schedule(static) nowait
    for (size_t j = 0; j < C; j += COLUMNS)
        for (size_t g = 0; g < groups; g++)
            group_f32(db + j, part + g * C + j, 1, size_min(C - j, COLUMNS));
}

void colsum_group(float *sum, bf16 *narrowed, const void *dy, enum dtype dt, size_t rows, size_t C)
{
    memset(sum, 0, C * sizeof *sum);
    if (narrowed)
        group_narrowed(sum, narrowed, dy, rows, C);
    else if (dt == DT_F32)
        group_f32(sum, dy, rows, C);
    else
        group_bf16(sum, dy, rows, C);
}

void colsum_add(float *db, bf16 *narrowed, const void *dy, enum dtype dt, size_t n, size_t C,
                void *scratch)
{
    float *part = scratch; // (groups, C)

#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (size_t i = 0; i < n; i += COLSUM_ROWS)
            colsum_group(part + i / COLSUM_ROWS * C, narrowed ? narrowed + i * C : NULL,
                         dtype_at(dy, dt, i * C), dt, size_min(n - i, COLSUM_ROWS), C);
        colsum_finish(db, part, n, C);
    }
}

/* ---- GELU, through the identity (1 + tanh u) / 2 = 1 / (1 + e^-2u) = s, which loses nothing where
 * tanh comes near -1: gelu = x s, gelu' = s + x s (1 - s) 2u', u = k (x + 0.044715 x^3) ---- */

enum { GELU_CHUNK = 16384, GELU_COLUMNS = 1024 }; // of a thread's turn forward, and backward

static const float two_k = 1.59576912160573071f; // 2 sqrt(2 / pi)
static const float cubic = 0.044715f;

SIMD_INLINE float minus_2u(float x) { return -two_k * x * __builtin_fmaf(cubic * x, x, 1.0f); }

SIMD_INLINE float gelu_value(float x) { return x / (1.0f + vexpf(minus_2u(x))); }

/* The value into *value and the slope, which share their exponential. Far out the slope is 0 or 1
 * and its formula infinity times nothing. */
SIMD_INLINE float gelu_slope(float x, float *value)
{
    float t = minus_2u(x), e = vexpf(t), s = 1.0f / (1.0f + e);
    float du = two_k * __builtin_fmaf(3.0f * cubic * x, x, 1.0f);
    float slope = s * __builtin_fmaf(x * du, e * s, 1.0f); // 1 - s = e s

    *value = x / (1.0f + e);
    slope = t > 80.0f ? 0.0f : slope;
    return t < -80.0f ? 1.0f : slope;
}

SIMD_INLINE void gelu_forward_as(void *out, const void *x, enum dtype dt, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        dtype_put(out, dt, i, gelu_value(dtype_get(x, dt, i)));
}

SIMD_INLINE void gelu_backward_as(void *restrict out, void *restrict dx, float *restrict sum,
                                  const float *restrict dout, const void *restrict x,
                                  enum dtype dt, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        float value, d = dout[i] * gelu_slope(dtype_get(x, dt, i), &value);

        dtype_put(out, dt, i, value);
        dtype_put(dx, dt, i, d);
        sum[i] += dt == DT_F32 ? d : bf16_to_f32(bf16_from_f32(d)); // as it was stored
    }
}

SIMD_CLONES static void gelu_chunk(void *out, const void *x, enum dtype dt, size_t n)
{
    dt == DT_F32 ? gelu_forward_as(out, x, DT_F32, n) : gelu_forward_as(out, x, DT_BF16, n);
}

SIMD_CLONES static void gelu_row(void *out, void *dx, float *sum, const float *dout, const void *x,
                                 enum dtype dt, size_t n)
{
    dt == DT_F32 ? gelu_backward_as(out, dx, sum, dout, x, DT_F32, n)
                 : gelu_backward_as(out, dx, sum, dout, x, DT_BF16, n);
}

void gelu_forward(void *out, const void *x, enum dtype dt, size_t n)
{
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i += GELU_CHUNK)
        gelu_chunk(dtype_at(out, dt, i), dtype_at(x, dt, i), dt, size_min(n - i, GELU_CHUNK));
}

void gelu_backward(const struct gelu_backward *g)
{
    size_t n = g->n, C = g->C, groups = div_up(n, COLSUM_ROWS), across = div_up(C, GELU_COLUMNS);
    float *part = g->scratch; // (groups, C)

#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (size_t u = 0; u < groups * across; u++) {
            size_t first = u / across * COLSUM_ROWS, end = size_min(first + COLSUM_ROWS, n);
            size_t j = u % across * GELU_COLUMNS, len = size_min(C - j, GELU_COLUMNS);
            float *sum = part + u / across * C + j;

            memset(sum, 0, len * sizeof *sum);
            for (size_t at = first * C + j; at < end * C; at += C)
                gelu_row(dtype_at(g->out, g->dt, at), dtype_at(g->dx, g->dt, at), sum,
                         g->dout + at, dtype_at(g->x, g->dt, at), g->dt, len);
        }
        colsum_finish(g->db, part, n, C);
    }
}

/* ---- embeddings: forward looks rows up; backward adds rows where tokens repeat, so there the
 * threads share out the columns, and every element sees its sums in the order of (b, t) ---- */

SIMD_INLINE void row_as(float *out, const void *te, const void *pe, enum dtype dt, size_t C)
{
#pragma omp simd
    for (size_t j = 0; j < C; j++)
        out[j] = dtype_get(te, dt, j) + dtype_get(pe, dt, j);
}

SIMD_CLONES static void row_forward(float *out, const void *te, const void *pe, enum dtype dt,
                                    size_t C)
{
    dt == DT_F32 ? row_as(out, te, pe, DT_F32, C) : row_as(out, te, pe, DT_BF16, C);
}

void embedding_forward(float *out, const void *wte, const void *wpe, enum dtype dt,
                       const int32_t *tokens, size_t B, size_t T, size_t C)
{
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < B * T; i++)
        row_forward(out + i * C, dtype_at(wte, dt, (size_t)tokens[i] * C),
                    dtype_at(wpe, dt, i % T * C), dt, C);
}

SIMD_CLONES static void row_backward(float *restrict te, float *restrict pe,
                                     const float *restrict dout, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        te[j] += dout[j];
        pe[j] += dout[j];
    }
}

void embedding_backward(float *dwte, float *dwpe, const float *dout, const int32_t *tokens,
                        size_t B, size_t T, size_t C)
{
    enum { LINE = 16 }; // floats of a cache line: no two threads write one

#pragma omp parallel
    {
        size_t lines = div_up(C, LINE);
        size_t threads = (size_t)omp_get_num_threads(), me = (size_t)omp_get_thread_num();
        size_t from = lines * me / threads * LINE, to = lines * (me + 1) / threads * LINE;

        to = size_min(to, C);
        for (size_t i = 0; i < B * T && from < to; i++)
            row_backward(dwte + (size_t)tokens[i] * C + from, dwpe + i % T * C + from,
                         dout + i * C + from, to - from);
    }
}
