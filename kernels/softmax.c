/* softmax.c: a row of logits is read from memory once and then, twice more, from cache: its
 * maximum, its sum of exponentials, its gradient. Exponentials are computed twice, not stored:
 * dlogits may be bf16. */
#include "kernels/softmax.h"

#include "data/base/round.h"
#include "kernels/simd.h"
#include "kernels/vexp.h"

#include <assert.h>
#include <math.h>

enum { RUN = 4096 }; // elements summed in float before their sum goes to a double

SIMD_CLONES static float row_max(const float *x, size_t V)
{
    float  lane[SIMD_LANES], top = -INFINITY;
    size_t i = 0;

    for (size_t l = 0; l < SIMD_LANES; l++)
        lane[l] = -INFINITY;
    for (; i + SIMD_LANES <= V; i += SIMD_LANES)
        for (size_t l = 0; l < SIMD_LANES; l++)
            lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (size_t l = 0; i + l < V; l++)
        lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (size_t l = 0; l < SIMD_LANES; l++)
        top = lane[l] > top ? lane[l] : top;
    return top;
}

SIMD_CLONES static float run_sum(const float *x, float top, size_t n)
{
    float  lane[SIMD_LANES] = {0};
    size_t i = 0;

    for (; i + SIMD_LANES <= n; i += SIMD_LANES)
        for (size_t l = 0; l < SIMD_LANES; l++)
            lane[l] += vexpf_low(x[i + l] - top);
    for (size_t l = 0; i + l < n; l++)
        lane[l] += vexpf_low(x[i + l] - top);
    return simd_sum(lane);
}

SIMD_INLINE void gradient_as(void *out, enum dtype dt, const float *x, float top, float factor,
                             size_t V)
{
#pragma omp simd // out may be x: each element is read before it is written
    for (size_t i = 0; i < V; i++)
        dtype_put(out, dt, i, vexpf_low(x[i] - top) * factor);
}

SIMD_CLONES static void row_gradient(void *out, enum dtype dt, const float *x, float top,
                                     float factor, size_t V)
{
    dt == DT_F32 ? gradient_as(out, DT_F32, x, top, factor, V)
                 : gradient_as(out, DT_BF16, x, top, factor, V);
}

/* A row's logits: its first columns and the rest, which stand apart. */
struct row { struct part { const float *x; size_t n; } part[2]; };

static float row_top(const struct row *r)
{
    float first = row_max(r->part[0].x, r->part[0].n), rest = row_max(r->part[1].x, r->part[1].n);

    return first > rest ? first : rest;
}

static double row_sum(const struct row *r, float top)
{
    double sum = 0.0;

    for (const struct part *p = r->part; p < r->part + 2; p++)
        for (size_t i = 0; i < p->n; i += RUN)
            sum += (double)run_sum(p->x + i, top, size_min(p->n - i, RUN));
    return sum;
}

/* One row; returns the loss. */
static float row_xent(void *dlogits, enum dtype dt, const struct row *r, size_t target, float scale)
{
    size_t split = r->part[0].n;
    float  of_target = target < split ? r->part[0].x[target] : r->part[1].x[target - split];
    float  top = row_top(r), at = of_target - top;
    double sum = row_sum(r, top);

    if (dlogits) {
        double p = exp((double)at) / sum;
        float  factor = (float)((double)scale / sum);

        row_gradient(dlogits, dt, r->part[0].x, top, factor, split);
        row_gradient(dtype_at(dlogits, dt, split), dt, r->part[1].x, top, factor, r->part[1].n);
        dtype_put(dlogits, dt, target, (float)((p - 1.0) * (double)scale));
    }
    return (float)(log(sum) - (double)at);
}

void softmax_xent(const struct softmax_xent *s)
{
    size_t       V = s->V, split = s->split, row_bytes = V * dtype_bytes(s->dt);
    const float *rest = s->logits + s->n * split;

    assert(split <= V &&
           (s->dlogits != (const void *)s->logits || (split == V && s->dt == DT_F32)));
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < s->n; i++) {
        char      *row = s->dlogits ? (char *)s->dlogits + i * row_bytes : NULL;
        int32_t    target = s->targets[i];
        struct row r = {{{ s->logits + i * split, split }, { rest + i * (V - split), V - split }}};

        assert(target < 0 || (size_t)target < V);
        s->losses[i] = target < 0 ? 0.0f : row_xent(row, s->dt, &r, (size_t)target, s->scale);
        if (target < 0 && row)
            memset(row, 0, row_bytes);
    }
}

/* ---- a classifier's head: a row's products with a handful of label vectors, bound by memory, done
 * once a batch ---- */

SIMD_CLONES static float dot(const void *a, const void *b, enum dtype dt, size_t C)
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
SIMD_CLONES static void axpy(float *y, float a, const void *x, enum dtype dt, size_t C)
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

void score_bias(float *logits, const void *bias, enum dtype dt, size_t n, size_t L)
{
    for (size_t i = 0; i < n; i++)
        for (size_t l = 0; l < L; l++)
            logits[i * L + l] += dtype_get(bias, dt, l);
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
