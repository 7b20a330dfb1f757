/* rmsnorm.c: computes RMSNorm and its gradients, for rows and for heads. Each row is normalised in
 * two passes, the second from cache: the mean square, then the product with the weight. The
 * weight's gradient, a sum over rows, is taken in groups of COLSUM_ROWS consecutive rows, with a
 * partial sum per group. The groups are added up in order. Heads are short rows that share a
 * weight: one thread takes all heads of a row. */
#include "kernels/rows/rmsnorm.h"

#include "data/base/round.h"
#include "kernels/elementwise.h"
#include "kernels/rows/norm_square.h"

#include <math.h>

enum { PARALLEL = 1 << 15 }; // elements of heads; for fewer, starting threads takes longer

/* The factor of a column. */
SIMD_INLINE float gain(const void *w, float plus, enum dtype dt, size_t j)
{
    return plus + dtype_get(w, dt, j);
}

SIMD_CLONES static float row_mean_square(const float *x, size_t C)
{
    return norm_square(x, DT_F32, 0, C);
}

/* One source for both formats: the caller's constant leaves one loop for each. */
SIMD_INLINE void apply_as(void *restrict out, const float *restrict x, const struct rmsnorm *r,
                          float rstd, enum dtype dt)
{
    const void *restrict w = r->w;
    float plus = r->plus;

#pragma omp simd
    for (size_t j = 0; j < r->C; j++)
        dtype_put(out, dt, j, x[j] * rstd * gain(w, plus, dt, j));
}

SIMD_CLONES static void row_apply(void *out, const float *x, const struct rmsnorm *r, float rstd)
{
    r->dt == DT_F32 ? apply_as(out, x, r, rstd, DT_F32) : apply_as(out, x, r, rstd, DT_BF16);
}

SIMD_INLINE void add_as(float *restrict out, const float *x, const float *restrict y,
                        const struct rmsnorm *r, float rstd, enum dtype dt)
{
    const void *restrict w = r->w;
    float plus = r->plus;

#pragma omp simd
    for (size_t j = 0; j < r->C; j++)
        out[j] = x[j] + y[j] * rstd * gain(w, plus, dt, j);
}

SIMD_CLONES static void row_add_normed(float *out, const float *x, const float *y,
                                       const struct rmsnorm *r, float rstd)
{
    r->dt == DT_F32 ? add_as(out, x, y, r, rstd, DT_F32) : add_as(out, x, y, r, rstd, DT_BF16);
}

void rmsnorm_residual(void *out, const float *x, const float *y, const struct rmsnorm *r)
{
    size_t C = r->C;

#pragma omp parallel for schedule(dynamic, 8)
    for (size_t i = 0; i < r->n; i++) {
        float *row = r->x + i * C;

        if (y)
            row_add(row, x + i * C, y + i * C, C);
        r->rstd[i] = 1.0f / sqrtf(row_mean_square(row, C) + r->eps);
        row_apply(dtype_at(out, r->dt, i * C), row, r, r->rstd[i]);
    }
}

void rmsnorm_forward(void *out, const struct rmsnorm *r) { rmsnorm_residual(out, NULL, NULL, r); }

void rmsnorm_add(float *out, const float *x, const struct rmsnorm *r)
{
    size_t C = r->C;

#pragma omp parallel for schedule(dynamic, 8)
    for (size_t i = 0; i < r->n; i++) {
        r->rstd[i] = 1.0f / sqrtf(row_mean_square(r->x + i * C, C) + r->eps);
        row_add_normed(out + i * C, x + i * C, r->x + i * C, r, r->rstd[i]);
    }
}

/* The mean over a row or a head that dx needs: of w d h, with d the gradient of the normalised row
 * and h the normalised x. d and x have x_dt. */
SIMD_INLINE float mean_as(const void *d, const void *x, enum dtype x_dt, float rstd, const void *w,
                          float plus, enum dtype dt, size_t C)
{
    float  lane[SIMD_LANES] = {0};
    size_t j = 0;

    for (; j + SIMD_LANES <= C; j += SIMD_LANES)
        for (size_t l = 0; l < SIMD_LANES; l++)
            lane[l] = __builtin_fmaf(dtype_get(d, x_dt, j + l) * gain(w, plus, dt, j + l),
                                     dtype_get(x, x_dt, j + l) * rstd, lane[l]);
    for (size_t l = 0; j + l < C; l++)
        lane[l] = __builtin_fmaf(dtype_get(d, x_dt, j + l) * gain(w, plus, dt, j + l),
                                 dtype_get(x, x_dt, j + l) * rstd, lane[l]);
    return simd_sum(lane) / (float)C;
}

/* dx += rstd (w dout - h mean(w dout h)); dw += dout h. */
SIMD_INLINE void backward_as(float *restrict dx, float *restrict dw, const float *dout,
                             const struct rmsnorm *r, size_t i, enum dtype dt)
{
    const float *x = r->x + i * r->C, rstd = r->rstd[i];
    const void  *w = r->w;
    size_t       C = r->C;
    float        plus = r->plus, mean = mean_as(dout, x, DT_F32, rstd, w, plus, dt, C);

#pragma omp simd
    for (size_t j = 0; j < C; j++) {
        float h = x[j] * rstd;

        dx[j] = __builtin_fmaf(rstd, __builtin_fmaf(-h, mean, dout[j] * gain(w, plus, dt, j)),
                               dx[j]);
        dw[j] = __builtin_fmaf(dout[j], h, dw[j]);
    }
}

SIMD_CLONES static void row_backward(float *dx, float *dw, const float *dout,
                                     const struct rmsnorm *r, size_t i)
{
    r->dt == DT_F32 ? backward_as(dx, dw, dout, r, i, DT_F32)
                    : backward_as(dx, dw, dout, r, i, DT_BF16);
}

void rmsnorm_backward(const struct rmsnorm_backward *b)
{
    size_t n = b->r->n, C = b->r->C;
    float *part = b->scratch; // (groups, C)

#pragma omp parallel
    {
#pragma omp for schedule(dynamic)
        for (size_t first = 0; first < n; first += COLSUM_ROWS) {
            float *dw = part + first / COLSUM_ROWS * C;

            memset(dw, 0, C * sizeof *dw);
            for (size_t i = first; i < size_min(first + COLSUM_ROWS, n); i++) {
                float *dx = b->dx + i * C;

                if (b->fresh)
                    memset(dx, 0, C * sizeof *dx);
                if (b->out)
                    row_apply(dtype_at(b->out, b->r->dt, i * C), b->r->x + i * C, b->r,
                              b->r->rstd[i]);
                row_backward(dx, dw, b->dout + i * C, b->r, i);
                if (b->narrowed)
                    convert(b->narrowed + i * C, DT_BF16, dx, DT_F32, C);
            }
        }
        colsum_finish(b->dw, part, n, C);
    }
}

/* ---- heads ---- */

/* Normalises the heads of one row. out may be x. */
SIMD_INLINE void heads_as(void *out, const void *x, const struct rmsnorm_heads *r, float *rstd,
                          enum dtype dt)
{
    const void *w = r->w;
    size_t      D = r->D;
    float       plus = r->plus;

    for (size_t h = 0; h < r->H; h++) {
        const void *from = dtype_at(x, dt, h * D);
        void       *to = dtype_at(out, dt, h * D);
        float       by = 1.0f / sqrtf(norm_square(from, dt, 0, D) + r->eps);

        rstd[h] = by;
#pragma omp simd
        for (size_t j = 0; j < D; j++)
            dtype_put(to, dt, j, dtype_get(from, dt, j) * by * gain(w, plus, dt, j));
    }
}

SIMD_CLONES static void row_heads(void *out, const void *x, const struct rmsnorm_heads *r,
                                  float *rstd)
{
    r->dt == DT_F32 ? heads_as(out, x, r, rstd, DT_F32) : heads_as(out, x, r, rstd, DT_BF16);
}

void rmsnorm_heads_forward(void *out, const struct rmsnorm_heads *r)
{
#pragma omp parallel for schedule(static) if (r->n * r->H * r->D > PARALLEL)
    for (size_t i = 0; i < r->n; i++)
        row_heads(dtype_at(out, r->dt, i * r->stride), dtype_at(r->x, r->dt, i * r->stride), r,
                  r->rstd + i * r->H);
}

/* d = rstd (w d - h mean(w d h)) in place; dw += d h. */
SIMD_INLINE void heads_backward_as(void *restrict d, float *restrict dw,
                                   const struct rmsnorm_heads *r, size_t i, enum dtype dt)
{
    const void *restrict w = r->w;
    size_t               D = r->D;
    float                plus = r->plus;

    for (size_t h = 0; h < r->H; h++) {
        const void *restrict x = dtype_at(r->x, dt, i * r->stride + h * D);
        void *restrict at = dtype_at(d, dt, h * D);
        float rstd = r->rstd[i * r->H + h],
              mean = mean_as(at, x, dt, rstd, w, plus, dt, D);

#pragma omp simd
        for (size_t j = 0; j < D; j++) {
            float y = dtype_get(x, dt, j) * rstd, dy = dtype_get(at, dt, j);

            dw[j] = __builtin_fmaf(dy, y, dw[j]);
            dtype_put(at, dt, j, rstd * __builtin_fmaf(-y, mean, dy * gain(w, plus, dt, j)));
        }
    }
}

SIMD_CLONES static void row_heads_backward(void *d, float *dw, const struct rmsnorm_heads *r,
                                           size_t i)
{
    r->dt == DT_F32 ? heads_backward_as(d, dw, r, i, DT_F32)
                    : heads_backward_as(d, dw, r, i, DT_BF16);
}

void rmsnorm_heads_backward(const struct rmsnorm_heads_backward *b)
{
    const struct rmsnorm_heads *r = b->r;
    float *part = b->scratch; // (groups, D)

#pragma omp parallel
    {
#pragma omp for schedule(dynamic)
        for (size_t first = 0; first < r->n; first += COLSUM_ROWS) {
            float *dw = part + first / COLSUM_ROWS * r->D;

            memset(dw, 0, r->D * sizeof *dw);
            for (size_t i = first; i < size_min(first + COLSUM_ROWS, r->n); i++)
                row_heads_backward(dtype_at(b->d, r->dt, i * r->stride), dw, r, i);
        }
        colsum_finish(b->dw, part, r->n, r->D);
    }
}
