/* score.c: a classifier's head. A row's products with a handful of label vectors: bound by memory,
 * done once a batch. */
#include "kernels/score.h"

#include "kernels/simd.h"

SIMD_CLONES
static float dot(const void *a, const void *b, enum dtype dt, size_t C)
{
    float  lane[SIMD_LANES] = { 0 };
    size_t c = 0;

    for (; c + SIMD_LANES <= C; c += SIMD_LANES)
        for (size_t l = 0; l < SIMD_LANES; l++)
            lane[l] += dtype_get(a, dt, c + l) * dtype_get(b, dt, c + l);
    for (size_t l = 0; c < C; c++, l++)
        lane[l] += dtype_get(a, dt, c) * dtype_get(b, dt, c);
    return simd_sum(lane);
}

/* y[c] += a x[c] */
SIMD_CLONES
static void axpy(float *y, float a, const void *x, enum dtype dt, size_t C)
{
    for (size_t c = 0; c < C; c++)
        y[c] += a * dtype_get(x, dt, c);
}

void score_forward(float *logits, const struct score *s)
{
    size_t L = s->L, C = s->C;

    #pragma omp parallel for
    for (size_t i = 0; i < s->n; i++)
        for (size_t l = 0; l < L; l++)
            logits[i * L + l] =
                dot(dtype_at(s->x, s->dt, i * C), dtype_at(s->w, s->dt, l * C), s->dt, C);
}

void score_backward(float *dx, float *dw, const float *dlogits, const struct score *s)
{
    size_t n = s->n, L = s->L, C = s->C;

    #pragma omp parallel for
    for (size_t i = 0; i < n; i++) {
        memset(dx + i * C, 0, C * sizeof *dx);
        for (size_t l = 0; l < L; l++)
            axpy(dx + i * C, dlogits[i * L + l], dtype_at(s->w, s->dt, l * C), s->dt, C);
    }
    #pragma omp parallel for
    for (size_t l = 0; l < L; l++)
        for (size_t i = 0; i < n; i++)
            axpy(dw + l * C, dlogits[i * L + l], dtype_at(s->x, s->dt, i * C), s->dt, C);
}

void score_squares(float *losses, float *dpredicted, const float *predicted, const float *value,
                   const int32_t *label, size_t n, float scale)
{
    for (size_t i = 0; i < n; i++) {
        float off = label[i] < 0 ? 0.0f : predicted[i] - value[i];

        losses[i] = off * off;
        if (dpredicted)
            dpredicted[i] = 2.0f * off * scale;
    }
}
