/* elementwise.c: passes whose time is that of reading and writing. Each is cut into chunks that
 * threads share out; inside a chunk a plain loop of one dtype, which the compiler turns into
 * vectors. */
#include "kernels/elementwise.h"

#include "data/base/round.h"
#include "kernels/simd.h"

#include <immintrin.h>
#include <omp.h>
#include <string.h>

enum {
    CHUNK = 32768, // elements of one thread's turn
    VIA   = 512,   // elements that pass through fp32 at a time, between the two 16-bit formats
};

SIMD_CLONES
static void f32_to_bf16(bf16 *restrict out, const float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = bf16_from_f32(x[i]);
}

SIMD_CLONES
static void bf16_to_f32s(float *restrict out, const bf16 *restrict x, size_t n)
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
#pragma omp parallel for schedule(static) if (n > CHUNK)
    for (size_t i = 0; i < n; i += CHUNK)
        memset(x + i, 0, size_min(n - i, CHUNK) * sizeof *x);
}

SIMD_CLONES
static void residual_chunk(float *out, const float *a, const float *b, size_t n)
{
#pragma omp simd // out may be a or b, which no vector minds
    for (size_t i = 0; i < n; i++)
        out[i] = a[i] + b[i];
}

void residual_add(float *out, const float *a, const float *b, size_t n)
{
#pragma omp parallel for schedule(static) if (n > CHUNK)
    for (size_t i = 0; i < n; i += CHUNK)
        residual_chunk(out + i, a + i, b + i, size_min(n - i, CHUNK));
}

SIMD_CLONES
static void group_f32(float *restrict sum, const float *restrict dy, size_t rows, size_t C)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < C; j++)
            sum[j] += dy[r * C + j];
}

SIMD_CLONES
static void group_bf16(float *restrict sum, const bf16 *restrict dy, size_t rows, size_t C)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < C; j++)
            sum[j] += bf16_to_f32(dy[r * C + j]);
}

SIMD_CLONES
static void group_narrowed(float *restrict sum, bf16 *restrict out, const float *restrict dy,
                           size_t rows, size_t C)
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
    enum { COLUMNS = 256 };
    size_t groups = div_up(n, COLSUM_ROWS);

#pragma omp parallel for schedule(static)
    for (size_t j = 0; j < C; j += COLUMNS)
        for (size_t g = 0; g < groups; g++)
            group_f32(db + j, part + g * C + j, 1, size_min(C - j, COLUMNS));
}

void colsum_add(float *db, bf16 *narrowed, const void *dy, enum dtype dt, size_t n, size_t C,
                void *scratch)
{
    float *part = scratch; // (groups, C)

#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i += COLSUM_ROWS) {
        size_t rows = size_min(n - i, COLSUM_ROWS);
        float *sum = part + i / COLSUM_ROWS * C;

        memset(sum, 0, C * sizeof *sum);
        if (narrowed)
            group_narrowed(sum, narrowed + i * C, (const float *)dy + i * C, rows, C);
        else if (dt == DT_F32)
            group_f32(sum, (const float *)dy + i * C, rows, C);
        else
            group_bf16(sum, (const bf16 *)dy + i * C, rows, C);
    }
    colsum_finish(db, part, n, C);
}

/* ---- embeddings: forward looks rows up; backward adds rows where tokens repeat, so there the
 * threads share out the columns, and every element sees its sums in the order of (b, t) ---- */

SIMD_INLINE void row_as(float *out, const void *te, const void *pe, enum dtype dt, size_t C)
{
#pragma omp simd
    for (size_t j = 0; j < C; j++)
        out[j] = dtype_get(te, dt, j) + dtype_get(pe, dt, j);
}

SIMD_CLONES
static void row_forward(float *out, const void *te, const void *pe, enum dtype dt, size_t C)
{
    dt == DT_F32 ? row_as(out, te, pe, DT_F32, C) : row_as(out, te, pe, DT_BF16, C);
}

void embedding_forward(float *out, const void *wte, const void *wpe, enum dtype dt,
                       const int32_t *tokens, size_t B, size_t T, size_t C)
{
    size_t row = C * dtype_bytes(dt);

#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < B * T; i++)
        row_forward(out + i * C, (const char *)wte + (size_t)tokens[i] * row,
                    (const char *)wpe + i % T * row, dt, C);
}

SIMD_CLONES
static void row_backward(float *restrict te, float *restrict pe, const float *restrict dout,
                         size_t n)
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
