/* elementwise.c: converts, adds, scales and sums arrays, applies tanh, and looks up embeddings. All
 * of these take as long as reading and writing memory. Each pass is cut into chunks for threads.
 * Within a chunk, a plain loop over one dtype is vectorised by the compiler. */
#include "kernels/elementwise.h"

#include "data/base/f16.h"
#include "data/base/round.h"
#include "kernels/simd.h"
#include "kernels/vexp.h"

#include <immintrin.h>
#include <omp.h>
#include <string.h>

enum {
    CHUNK = 32768, // elements of one thread's turn
    RESIDUAL = 8192, // of a residual: with CHUNK, 16 threads had one or two turns each
    VIA   = 512,   // elements that pass through fp32 at a time, between 16-bit formats
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
    if (n <= CHUNK) { // updates call this for each piece: avoid a team of threads
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
    if (n <= CHUNK) { // most tensors of a layer are small: avoid a team of threads
        memset(x, 0, n * sizeof *x);
        return;
    }
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i += CHUNK)
        memset(x + i, 0, size_min(n - i, CHUNK) * sizeof *x);
}

SIMD_CLONES static void scale(float *x, float by, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] *= by;
}

void floats_scale(float *x, float by, size_t n)
{
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i += CHUNK)
        scale(x + i, by, size_min(n - i, CHUNK));
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
#pragma omp simd // out may be a or b, which does no harm
    for (size_t i = 0; i < n; i++)
        out[i] = a[i] + b[i];
}

void residual_add(float *out, const float *a, const float *b, size_t n)
{
#pragma omp parallel for schedule(dynamic) if (n > RESIDUAL)
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
#pragma omp for schedule(dynamic)
        for (size_t i = 0; i < n; i += COLSUM_ROWS)
            colsum_group(part + i / COLSUM_ROWS * C, narrowed ? narrowed + i * C : NULL,
                         dtype_at(dy, dt, i * C), dt, size_min(n - i, COLSUM_ROWS), C);
        colsum_finish(db, part, n, C);
    }
}

/* ---- tanh ---- */

/* Near 0, (1 - e) / (1 + e) with e = exp(-2 |x|) loses digits, so the Taylor series is used. Its
 * next term is below 1e-8 of the value. The sign is added at the end. */
SIMD_INLINE float tanh_value(float x)
{
    float a = __builtin_fabsf(x), e = vexpf_low(-2.0f * a), square = x * x;
    float p = 62.0f / 2835.0f, y = (1.0f - e) / (1.0f + e);

    p = __builtin_fmaf(p, square, -17.0f / 315.0f);
    p = __builtin_fmaf(p, square, 2.0f / 15.0f);
    p = __builtin_fmaf(p, square, -1.0f / 3.0f);
    y = a < 0.25f ? __builtin_fmaf(p * square, a, a) : y;
    return __builtin_copysignf(y, x);
}

SIMD_INLINE void tanh_as(void *y, const void *x, enum dtype dt, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        dtype_put(y, dt, i, tanh_value(dtype_get(x, dt, i)));
}

SIMD_CLONES static void tanh_chunk(void *y, const void *x, enum dtype dt, size_t n)
{
    dt == DT_F32 ? tanh_as(y, x, DT_F32, n) : tanh_as(y, x, DT_BF16, n);
}

void tanh_forward(void *y, const void *x, enum dtype dt, size_t n)
{
#pragma omp parallel for schedule(static) if (n > RESIDUAL)
    for (size_t i = 0; i < n; i += RESIDUAL)
        tanh_chunk(dtype_at(y, dt, i), dtype_at(x, dt, i), dt, size_min(n - i, RESIDUAL));
}

SIMD_INLINE void tanh_backward_as(void *dx, const float *dy, const void *y, enum dtype dt, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        float v = dtype_get(y, dt, i);

        dtype_put(dx, dt, i, dy[i] * __builtin_fmaf(-v, v, 1.0f));
    }
}

SIMD_CLONES static void tanh_backward_chunk(void *dx, const float *dy, const void *y,
                                            enum dtype dt, size_t n)
{
    dt == DT_F32 ? tanh_backward_as(dx, dy, y, DT_F32, n)
                 : tanh_backward_as(dx, dy, y, DT_BF16, n);
}

void tanh_backward(void *dx, const float *dy, const void *y, enum dtype dt, size_t n)
{
#pragma omp parallel for schedule(static) if (n > RESIDUAL)
    for (size_t i = 0; i < n; i += RESIDUAL)
        tanh_backward_chunk(dtype_at(dx, dt, i), dy + i, dtype_at(y, dt, i), dt,
                            size_min(n - i, RESIDUAL));
}

/* ---- embeddings. Forward looks rows up. Backward adds rows; tokens may repeat, so threads share
 * out columns there, and every element gets its sums in the order of (b, t). ---- */

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

SIMD_INLINE void row_add_as(float *out, const void *x, enum dtype dt, size_t C)
{
#pragma omp simd
    for (size_t j = 0; j < C; j++)
        out[j] += dtype_get(x, dt, j);
}

SIMD_CLONES static void row_add_wide(float *out, const void *x, enum dtype dt, size_t C)
{
    dt == DT_F32 ? row_add_as(out, x, DT_F32, C) : row_add_as(out, x, DT_BF16, C);
}

void embedding_forward(float *out, const void *wte, const void *wpe, enum dtype dt,
                       const int32_t *tokens, size_t B, size_t T, size_t C)
{
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < B * T; i++) {
        const void *te = dtype_at(wte, dt, (size_t)tokens[i] * C);

        row_forward(out + i * C, te, dtype_at(wpe, dt, i % T * C), dt, C);
    }
}

void embedding_add(float *out, const void *table, enum dtype dt, const int32_t *ids, size_t n,
                   size_t C)
{
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i++)
        row_add_wide(out + i * C, dtype_at(table, dt, (size_t)ids[i] * C), dt, C);
}

SIMD_CLONES static void row_backward(float *restrict te, float *restrict pe,
                                     const float *restrict dout, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        te[j] += dout[j];
        pe[j] += dout[j];
    }
}

void embedding_piece_forward(float *out, const void *wte, enum dtype dt,
                             struct embedding_piece piece, const int32_t *tokens, size_t n,
                             size_t C)
{
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i++) {
        size_t row = (size_t)tokens[i] - piece.first; // large for a token before them

        if (row < piece.rows)
            convert(out + i * C, DT_F32, dtype_at(wte, dt, row * C), dt, C);
    }
}

/* The columns of the calling thread: no two threads write one cache line. */
struct columns { size_t from, to; };

static struct columns own_columns(size_t C)
{
    enum { LINE = 16 }; // floats of a cache line
    size_t lines = div_up(C, LINE);
    size_t threads = (size_t)omp_get_num_threads(), me = (size_t)omp_get_thread_num();

    return (struct columns){ size_min(lines * me / threads * LINE, C),
                             size_min(lines * (me + 1) / threads * LINE, C) };
}

void embedding_piece_backward(float *dwte, const float *dout, struct embedding_piece piece,
                              const int32_t *tokens, size_t n, size_t C)
{
#pragma omp parallel
    {
        struct columns c = own_columns(C);

        for (size_t i = 0; i < n && c.from < c.to; i++) {
            size_t row = (size_t)tokens[i] - piece.first;

            if (row >= piece.rows)
                continue;
            float *te = dwte + row * C + c.from;
            row_add(te, te, dout + i * C + c.from, c.to - c.from);
        }
    }
}

void embedding_backward(float *dwte, float *dwpe, const float *dout, const int32_t *tokens,
                        size_t B, size_t T, size_t C)
{
#pragma omp parallel
    {
        struct columns c = own_columns(C);

        for (size_t i = 0; i < B * T && c.from < c.to; i++) {
            float       *te = dwte ? dwte + (size_t)tokens[i] * C + c.from : NULL;
            float       *pe = dwpe ? dwpe + i % T * C + c.from : NULL;
            const float *d = dout + i * C + c.from;

            if (te && pe)
                row_backward(te, pe, d, c.to - c.from);
            else
                row_add(te ? te : pe, te ? te : pe, d, c.to - c.from);
        }
    }
}
