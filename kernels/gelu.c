/* gelu.c: GELU's tanh form through the identity (1 + tanh u) / 2 = 1 / (1 + e^-2u) = s, which loses
 * nothing where tanh comes near -1: gelu = x s, gelu' = s + x s (1 - s) 2u', with u = k (x +
 * 0.044715 x^3). */
#include "kernels/gelu.h"

#include "data/base/round.h"
#include "kernels/elementwise.h"
#include "kernels/simd.h"
#include "kernels/vexp.h"

enum {
    CHUNK   = 16384, // elements of one thread's turn
    COLUMNS = 1024,  // of backward's, in COLSUM_ROWS rows
};

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

SIMD_INLINE void forward_as(void *out, const void *x, enum dtype dt, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        dtype_put(out, dt, i, gelu_value(dtype_get(x, dt, i)));
}

SIMD_INLINE void backward_as(void *restrict out, void *restrict dx, float *restrict sum,
                             const float *restrict dout, const void *restrict x, enum dtype dt,
                             size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        float value, d = dout[i] * gelu_slope(dtype_get(x, dt, i), &value);

        dtype_put(out, dt, i, value);
        dtype_put(dx, dt, i, d);
        sum[i] += dt == DT_F32 ? d : bf16_to_f32(bf16_from_f32(d)); // as it was stored
    }
}

SIMD_CLONES
static void forward_chunk(void *out, const void *x, enum dtype dt, size_t n)
{
    dt == DT_F32 ? forward_as(out, x, DT_F32, n) : forward_as(out, x, DT_BF16, n);
}

SIMD_CLONES
static void backward_row(void *out, void *dx, float *sum, const float *dout, const void *x,
                         enum dtype dt, size_t n)
{
    dt == DT_F32 ? backward_as(out, dx, sum, dout, x, DT_F32, n)
                 : backward_as(out, dx, sum, dout, x, DT_BF16, n);
}

void gelu_forward(void *out, const void *x, enum dtype dt, size_t n)
{
    size_t bytes = dtype_bytes(dt);

#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i += CHUNK)
        forward_chunk((char *)out + i * bytes, (const char *)x + i * bytes, dt,
                      size_min(n - i, CHUNK));
}

void gelu_backward(const struct gelu_backward *g)
{
    size_t n = g->n, C = g->C, groups = div_up(n, COLSUM_ROWS), across = div_up(C, COLUMNS);
    float *part = g->scratch; // (groups, C)

#pragma omp parallel for schedule(static)
    for (size_t u = 0; u < groups * across; u++) {
        size_t first = u / across * COLSUM_ROWS, end = size_min(first + COLSUM_ROWS, n);
        size_t j = u % across * COLUMNS, len = size_min(C - j, COLUMNS);
        float *sum = part + u / across * C + j;

        memset(sum, 0, len * sizeof *sum);
        for (size_t at = first * C + j; at < end * C; at += C) {
            size_t byte = at * dtype_bytes(g->dt);

            backward_row((char *)g->out + byte, (char *)g->dx + byte, sum, g->dout + at,
                         (const char *)g->x + byte, g->dt, len);
        }
    }
    colsum_finish(g->db, part, n, C);
}
