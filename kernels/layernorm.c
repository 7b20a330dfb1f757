/* layernorm.c: rows are normalised each on its own, in two passes over a row that is then in cache:
 * the mean, the variance about it. The sums over rows, dw and db, are taken in groups of
 * LAYERNORM_ROWS consecutive rows, a partial sum a group, and the groups are added up in order. */
#include "kernels/layernorm.h"
#include "data/base/round.h"
#include "kernels/simd.h"

#include <math.h>

SIMD_CLONES
static float row_mean(const float *x, size_t C)
{
    float  lane[SIMD_LANES] = {0};
    size_t j = 0;

    for (; j + SIMD_LANES <= C; j += SIMD_LANES)
        for (size_t l = 0; l < SIMD_LANES; l++)
            lane[l] += x[j + l];
    for (size_t l = 0; j + l < C; l++)
        lane[l] += x[j + l];
    return simd_sum(lane) / (float)C;
}

SIMD_CLONES
static float row_variance(const float *x, float mean, size_t C)
{
    float  lane[SIMD_LANES] = {0};
    size_t j = 0;

    for (; j + SIMD_LANES <= C; j += SIMD_LANES)
        for (size_t l = 0; l < SIMD_LANES; l++) {
            float d = x[j + l] - mean;

            lane[l] = __builtin_fmaf(d, d, lane[l]);
        }
    for (size_t l = 0; j + l < C; l++)
        lane[l] = __builtin_fmaf(x[j + l] - mean, x[j + l] - mean, lane[l]);
    return simd_sum(lane) / (float)C;
}

/* Written once for all dtypes; the caller's constants leave one loop of each. */
SIMD_INLINE void apply_as(void *out, enum dtype out_dt, float mean, float rstd, const float *x,
                          const void *w, const void *b, enum dtype w_dt, size_t C)
{
#pragma omp simd
    for (size_t j = 0; j < C; j++)
        dtype_put(out, out_dt, j,
                  __builtin_fmaf((x[j] - mean) * rstd, dtype_get(w, w_dt, j),
                                 dtype_get(b, w_dt, j)));
}

SIMD_CLONES
static void row_apply(void *out, enum dtype out_dt, float mean, float rstd, const float *x,
                      const void *w, const void *b, enum dtype w_dt, size_t C)
{
    if (out_dt == DT_F32 && w_dt == DT_F32)
        apply_as(out, DT_F32, mean, rstd, x, w, b, DT_F32, C);
    else if (out_dt == DT_F32)
        apply_as(out, DT_F32, mean, rstd, x, w, b, DT_BF16, C);
    else if (w_dt == DT_F32)
        apply_as(out, DT_BF16, mean, rstd, x, w, b, DT_F32, C);
    else
        apply_as(out, DT_BF16, mean, rstd, x, w, b, DT_BF16, C);
}

SIMD_CLONES
static void row_add(float *restrict out, const float *restrict x, const float *restrict y, size_t C)
{
    for (size_t j = 0; j < C; j++)
        out[j] = x[j] + y[j];
}

void layernorm_residual(void *out, enum dtype out_dt, float *mean, float *rstd, float *sum,
                        const float *x, const float *y, const void *w, const void *b,
                        enum dtype w_dt, size_t n, size_t C, float eps)
{
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i++) {
        const float *row = x + i * C;

        if (y) {
            row_add(sum + i * C, row, y + i * C, C);
            row = sum + i * C;
        }
        mean[i] = row_mean(row, C);
        rstd[i] = 1.0f / sqrtf(row_variance(row, mean[i], C) + eps);
        row_apply((char *)out + i * C * dtype_bytes(out_dt), out_dt, mean[i], rstd[i], row, w, b,
                  w_dt, C);
    }
}

void layernorm_forward(void *out, enum dtype out_dt, float *mean, float *rstd, const float *x,
                       const void *w, const void *b, enum dtype w_dt, size_t n, size_t C, float eps)
{
    layernorm_residual(out, out_dt, mean, rstd, NULL, x, NULL, w, b, w_dt, n, C, eps);
}

void layernorm_apply(void *out, enum dtype out_dt, const float *mean, const float *rstd,
                     const float *x, const void *w, const void *b, enum dtype w_dt, size_t n,
                     size_t C)
{
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i++)
        row_apply((char *)out + i * C * dtype_bytes(out_dt), out_dt, mean[i], rstd[i], x + i * C,
                  w, b, w_dt, C);
}

/* The two sums over a row that its dx needs: sums[0] of w dout, sums[1] of w dout h, h the
 * normalised x. */
SIMD_INLINE void sums_as(float sums[2], const float *dout, const float *x, const void *w,
                         enum dtype w_dt, float mean, float rstd, size_t C)
{
    float  d[SIMD_LANES] = {0}, dh[SIMD_LANES] = {0};
    size_t j = 0;

    for (; j + SIMD_LANES <= C; j += SIMD_LANES)
        for (size_t l = 0; l < SIMD_LANES; l++) {
            float t = dout[j + l] * dtype_get(w, w_dt, j + l);

            d[l] += t;
            dh[l] = __builtin_fmaf(t, (x[j + l] - mean) * rstd, dh[l]);
        }
    for (size_t l = 0; j + l < C; l++) {
        float t = dout[j + l] * dtype_get(w, w_dt, j + l);

        d[l] += t;
        dh[l] = __builtin_fmaf(t, (x[j + l] - mean) * rstd, dh[l]);
    }
    sums[0] = simd_sum(d);
    sums[1] = simd_sum(dh);
}

/* dx += rstd (w dout - mean(w dout) - h mean(w dout h)); dw += dout h; db += dout. */
SIMD_INLINE void backward_as(float *restrict dx, float *restrict dw, float *restrict db,
                             const float *dout, const float *x, const void *w, enum dtype w_dt,
                             float mean, float rstd, size_t C)
{
    float sums[2], m0, m1;

    sums_as(sums, dout, x, w, w_dt, mean, rstd, C);
    m0 = sums[0] / (float)C;
    m1 = sums[1] / (float)C;
#pragma omp simd
    for (size_t j = 0; j < C; j++) {
        float h = (x[j] - mean) * rstd;
        float t = dout[j] * dtype_get(w, w_dt, j) - m0;

        dx[j] = __builtin_fmaf(rstd, __builtin_fmaf(-h, m1, t), dx[j]);
        dw[j] = __builtin_fmaf(dout[j], h, dw[j]);
        db[j] += dout[j];
    }
}

SIMD_CLONES
static void row_backward(float *dx, float *dw, float *db, const float *dout, const float *x,
                         const void *w, enum dtype w_dt, float mean, float rstd, size_t C)
{
    if (w_dt == DT_F32)
        backward_as(dx, dw, db, dout, x, w, DT_F32, mean, rstd, C);
    else
        backward_as(dx, dw, db, dout, x, w, DT_BF16, mean, rstd, C);
}

SIMD_CLONES
static void add_to(float *restrict sum, const float *restrict part, size_t n)
{
    for (size_t j = 0; j < n; j++)
        sum[j] += part[j];
}

size_t layernorm_scratch(size_t n, size_t C)
{
    return div_up(n, LAYERNORM_ROWS) * 2 * C * sizeof(float);
}

void layernorm_backward(float *dx, float *dw, float *db, const float *dout, const float *x,
                        const void *w, enum dtype w_dt, const float *mean, const float *rstd,
                        size_t n, size_t C, void *scratch)
{
    enum { COLUMNS = 256 };
    size_t groups = div_up(n, LAYERNORM_ROWS);
    float *part = scratch; // (groups, 2, C)

#pragma omp parallel for schedule(static)
    for (size_t g = 0; g < groups; g++) {
        size_t first = g * LAYERNORM_ROWS,
               end = n - first < LAYERNORM_ROWS ? n : first + LAYERNORM_ROWS;
        float *p = part + g * 2 * C;

        memset(p, 0, 2 * C * sizeof *p);
        for (size_t i = first; i < end; i++)
            row_backward(dx + i * C, p, p + C, dout + i * C, x + i * C, w, w_dt, mean[i], rstd[i],
                         C);
    }
#pragma omp parallel for schedule(static)
    for (size_t j = 0; j < C; j += COLUMNS) {
        size_t len = C - j < COLUMNS ? C - j : COLUMNS;

        for (size_t g = 0; g < groups; g++) {
            add_to(dw + j, part + g * 2 * C + j, len);
            add_to(db + j, part + g * 2 * C + C + j, len);
        }
    }
}
