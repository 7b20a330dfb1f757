/* swiglu.c: computes the gated unit and its gradients. This takes as long as reading, writing and
 * an exponential. A thread's turn is COLUMNS of a row, so that few wide rows are shared out as well
 * as many narrow ones. Elements are independent.
 *
 * With e = e^-x and s = 1 / (1 + e): silu = x s, and silu' = s + x s (1 - s) = s (1 + x e s),
 * because 1 - s = e s. That form loses no digits if s is near 1. */
#include "kernels/rows/swiglu.h"

#include "data/base/round.h"
#include "kernels/rows/gelu_tanh.h"
#include "kernels/simd.h"
#include "kernels/vexp.h"

enum { COLUMNS = 4096 };

SIMD_INLINE void forward_as(void *restrict out, const void *restrict gate, const void *restrict up,
                            enum glu_form form, enum dtype dt, size_t n)
{
#pragma omp simd
    for (size_t j = 0; j < n; j++) {
        float x = dtype_get(gate, dt, j);
        float value = form == GLU_GELU ? tanh_value(x) : x * (1.0f / (1.0f + vexpf(-x)));

        dtype_put(out, dt, j, value * dtype_get(up, dt, j));
    }
}

SIMD_CLONES static void forward_piece(void *out, const void *gate, const void *up,
                                      enum glu_form form, enum dtype dt, size_t n)
{
    if (form == GLU_SILU)
        dt == DT_F32 ? forward_as(out, gate, up, GLU_SILU, DT_F32, n)
                     : forward_as(out, gate, up, GLU_SILU, DT_BF16, n);
    else
        dt == DT_F32 ? forward_as(out, gate, up, GLU_GELU, DT_F32, n)
                     : forward_as(out, gate, up, GLU_GELU, DT_BF16, n);
}

/* Writes silu to *value and returns its slope. For large |x| the slope is 0 or 1, and its formula
 * would be infinity times zero. */
SIMD_INLINE float silu_slope(float x, float *value)
{
    float e = vexpf(-x), s = 1.0f / (1.0f + e);
    float slope = s * __builtin_fmaf(x, e * s, 1.0f);

    *value = x * s;
    slope = x < -80.0f ? 0.0f : slope;
    return x > 80.0f ? 1.0f : slope;
}

/* Where the elements of one turn begin in each array. */
struct piece {
    const void  *gate, *up;
    const float *dout;
    void        *out, *dgate, *dup;
};

SIMD_INLINE void backward_as(const struct piece *p, enum glu_form form, enum dtype dt, size_t n)
{
    const void *restrict gate = p->gate, *restrict up = p->up;
    const float *restrict dout = p->dout;
    void *restrict out = p->out, *restrict dgate = p->dgate, *restrict dup = p->dup;

#pragma omp simd
    for (size_t j = 0; j < n; j++) {
        float value, x = dtype_get(gate, dt, j);
        float slope = form == GLU_GELU ? tanh_slope(x, &value) : silu_slope(x, &value);
        float u = dtype_get(up, dt, j), d = dout[j];

        dtype_put(out, dt, j, value * u);
        dtype_put(dgate, dt, j, d * u * slope);
        dtype_put(dup, dt, j, d * value);
    }
}

SIMD_CLONES static void backward_piece(const struct piece *p, enum glu_form form, enum dtype dt,
                                       size_t n)
{
    if (form == GLU_SILU)
        dt == DT_F32 ? backward_as(p, GLU_SILU, DT_F32, n) : backward_as(p, GLU_SILU, DT_BF16, n);
    else
        dt == DT_F32 ? backward_as(p, GLU_GELU, DT_F32, n) : backward_as(p, GLU_GELU, DT_BF16, n);
}

void swiglu_forward(void *out, const struct swiglu *s)
{
    size_t across = div_up(s->F, COLUMNS);

#pragma omp parallel for schedule(dynamic, 8)
    for (size_t k = 0; k < s->n * across; k++) {
        size_t i = k / across, j = k % across * COLUMNS, at = i * s->stride + j;

        forward_piece(dtype_at(out, s->dt, i * s->F + j), dtype_at(s->gate, s->dt, at),
                      dtype_at(s->up, s->dt, at), s->form, s->dt, size_min(s->F - j, COLUMNS));
    }
}

void swiglu_backward(const struct swiglu_backward *b)
{
    const struct swiglu *s = b->s;
    size_t               across = div_up(s->F, COLUMNS);

#pragma omp parallel for schedule(dynamic, 8)
    for (size_t k = 0; k < s->n * across; k++) {
        size_t i = k / across, j = k % across * COLUMNS, at = i * s->stride + j,
               dense = i * s->F + j;
        struct piece p = {.gate = dtype_at(s->gate, s->dt, at), .up = dtype_at(s->up, s->dt, at),
                          .dout = b->dout + dense, .out = dtype_at(b->out, s->dt, dense),
                          .dgate = dtype_at(b->dgate, s->dt, at),
                          .dup = dtype_at(b->dup, s->dt, at)};

        backward_piece(&p, s->form, s->dt, size_min(s->F - j, COLUMNS));
    }
}
