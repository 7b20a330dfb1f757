/* gelu.c: computes both forms of GELU and their gradients, in one pass over chunks. The tanh form
 * is in gelu_tanh.h. The exact form is x F(x), with gelu' = F(x) + x f(x) and f the density. F(-a)
 * with a = |x| is e^(-a^2 / 2) times a smooth function, which a polynomial approximates, so the
 * tail keeps its digits, too. */
#include "kernels/rows/gelu.h"

#include "data/base/round.h"
#include "kernels/elementwise.h"
#include "kernels/rows/gelu_tanh.h"
#include "kernels/simd.h"
#include "kernels/vexp.h"

enum { GELU_CHUNK = 16384, GELU_COLUMNS = 1024 }; // of a thread's turn, forward and backward

enum gelu_form { GELU_TANH, GELU_ERF };

static const float far = 14.0f; // beyond this the tail is 0 in fp32

/* F(-a) for a from 0 to `far`. *e becomes e^(-a^2 / 2), corrected for what rounding a^2 loses.
 * F(-a) / *e = erfcx(a / sqrt 2) / 2 is t times a polynomial in t = 1 / (1 + a / 4): minimax by
 * Remez's exchange, 8e-9 relative before rounding. */
SIMD_INLINE float normal_tail(float a, float *e)
{
    float square = a * a, lost = __builtin_fmaf(a, a, -square);
    float t = 1.0f / __builtin_fmaf(a, 0.25f, 1.0f), p = 0x1.0fa19ep-6f;

    *e = vexpf_low(-0.5f * square);
    *e = __builtin_fmaf(-0.5f * lost, *e, *e);
    p = __builtin_fmaf(p, t, -0x1.012f12p-4f);
    p = __builtin_fmaf(p, t, 0x1.a713d4p-5f);
    p = __builtin_fmaf(p, t, 0x1.d20b4ep-6f);
    p = __builtin_fmaf(p, t, 0x1.a04c74p-7f);
    p = __builtin_fmaf(p, t, 0x1.62f654p-4f);
    p = __builtin_fmaf(p, t, 0x1.26e78ep-4f);
    p = __builtin_fmaf(p, t, 0x1.873bc2p-4f);
    p = __builtin_fmaf(p, t, 0x1.97857ap-4f);
    p = __builtin_fmaf(p, t, 0x1.989142p-4f);
    return *e * (p * t);
}

SIMD_INLINE float magnitude(float x)
{
    float a = __builtin_fabsf(x);

    return a > far ? far : a; // NaN stays NaN
}

SIMD_INLINE float erf_value(float x)
{
    float a = magnitude(x), e;

    return __builtin_fmaf(-a, normal_tail(a, &e), x > 0.0f ? x : 0.0f);
}

SIMD_INLINE float erf_slope(float x, float *value)
{
    float a = magnitude(x), e, tail = normal_tail(a, &e);
    float q = __builtin_fmaf(-0.39894228040143268f * a, e, tail); // the slope at -a

    *value = __builtin_fmaf(-a, tail, x > 0.0f ? x : 0.0f);
    return x < 0.0f ? q : 1.0f - q;
}

SIMD_INLINE void gelu_forward_as(void *out, const void *x, enum gelu_form form, enum dtype dt,
                                 size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        float a = dtype_get(x, dt, i);

        dtype_put(out, dt, i, form == GELU_TANH ? tanh_value(a) : erf_value(a));
    }
}

SIMD_INLINE void gelu_backward_as(void *restrict out, void *restrict dx, float *restrict sum,
                                  const float *restrict dout, const void *restrict x,
                                  enum gelu_form form, enum dtype dt, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        float a = dtype_get(x, dt, i), value;
        float d = dout[i] * (form == GELU_TANH ? tanh_slope(a, &value) : erf_slope(a, &value));

        dtype_put(out, dt, i, value);
        dtype_put(dx, dt, i, d);
        sum[i] += dt == DT_F32 ? d : bf16_to_f32(bf16_from_f32(d)); // the sum of what is stored
    }
}

SIMD_CLONES static void gelu_chunk(void *out, const void *x, enum gelu_form form, enum dtype dt,
                                   size_t n)
{
    if (form == GELU_TANH)
        dt == DT_F32 ? gelu_forward_as(out, x, GELU_TANH, DT_F32, n)
                     : gelu_forward_as(out, x, GELU_TANH, DT_BF16, n);
    else
        dt == DT_F32 ? gelu_forward_as(out, x, GELU_ERF, DT_F32, n)
                     : gelu_forward_as(out, x, GELU_ERF, DT_BF16, n);
}

/* Computes `len` elements of g from element `at` on. */
SIMD_CLONES static void gelu_row(const struct gelu_backward *g, enum gelu_form form, float *sum,
                                 size_t at, size_t len)
{
    enum dtype   dt = g->dt;
    void        *out = dtype_at(g->out, dt, at), *dx = dtype_at(g->dx, dt, at);
    const float *dout = g->dout + at;
    const void  *x = dtype_at(g->x, dt, at);

    if (form == GELU_TANH)
        dt == DT_F32 ? gelu_backward_as(out, dx, sum, dout, x, GELU_TANH, DT_F32, len)
                     : gelu_backward_as(out, dx, sum, dout, x, GELU_TANH, DT_BF16, len);
    else
        dt == DT_F32 ? gelu_backward_as(out, dx, sum, dout, x, GELU_ERF, DT_F32, len)
                     : gelu_backward_as(out, dx, sum, dout, x, GELU_ERF, DT_BF16, len);
}

static void forward_run(void *out, const void *x, enum gelu_form form, enum dtype dt, size_t n)
{
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < n; i += GELU_CHUNK)
        gelu_chunk(dtype_at(out, dt, i), dtype_at(x, dt, i), form, dt, size_min(n - i, GELU_CHUNK));
}

static void backward_run(const struct gelu_backward *g, enum gelu_form form)
{
    size_t n = g->n, C = g->C, groups = div_up(n, COLSUM_ROWS), across = div_up(C, GELU_COLUMNS);
    float *part = g->scratch; // (groups, C)

#pragma omp parallel
    {
#pragma omp for schedule(dynamic)
        for (size_t u = 0; u < groups * across; u++) {
            size_t first = u / across * COLSUM_ROWS, end = size_min(first + COLSUM_ROWS, n);
            size_t j = u % across * GELU_COLUMNS, len = size_min(C - j, GELU_COLUMNS);
            float *sum = part + u / across * C + j;

            memset(sum, 0, len * sizeof *sum);
            for (size_t at = first * C + j; at < end * C; at += C)
                gelu_row(g, form, sum, at, len);
        }
        colsum_finish(g->db, part, n, C);
    }
}

void gelu_forward(void *out, const void *x, enum dtype dt, size_t n)
{
    forward_run(out, x, GELU_TANH, dt, n);
}

void gelu_erf_forward(void *out, const void *x, enum dtype dt, size_t n)
{
    forward_run(out, x, GELU_ERF, dt, n);
}

void gelu_backward(const struct gelu_backward *g) { backward_run(g, GELU_TANH); }

void gelu_erf_backward(const struct gelu_backward *g) { backward_run(g, GELU_ERF); }
