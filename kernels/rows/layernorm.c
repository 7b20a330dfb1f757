/* layernorm.c: computes layernorm and its gradients. Each row is normalised in two passes, the
 * second from cache: the mean, then the variance. The sums over rows, dw and db, are taken in
 * groups of COLSUM_ROWS consecutive rows, with a partial sum per group. The groups are added up in
 * order. */
#include "kernels/rows/layernorm.h"

#include "data/base/round.h"
#include "kernels/elementwise.h"
#include "kernels/rows/norm_square.h"

#include <math.h>

SIMD_CLONES static float row_mean(const float *x, size_t C)
{
    return simd_total(x, C) / (float)C;
}

SIMD_CLONES static float row_variance(const float *x, float mean, size_t C)
{
    return norm_square(x, DT_F32, mean, C);
}

/* One source for all formats: constants of the caller leave one loop for each. */
SIMD_INLINE void apply_as(void *out, enum dtype out_dt, const struct layernorm *l, size_t i,
                          enum dtype dt)
{
    const float *x = l->x + i * l->C, mean = l->mean[i], rstd = l->rstd[i];
    const void  *w = l->w, *b = l->b;
    size_t       C = l->C;

#pragma omp simd
    for (size_t j = 0; j < C; j++)
        dtype_put(out, out_dt, j,
                  __builtin_fmaf((x[j] - mean) * rstd, dtype_get(w, dt, j), dtype_get(b, dt, j)));
}

SIMD_CLONES static void row_write(void *out, const struct layernorm *l, size_t i)
{
    l->dt == DT_F32 ? apply_as((float *)out + i * l->C, DT_F32, l, i, DT_F32)
                    : apply_as((bf16 *)out + i * l->C, DT_BF16, l, i, DT_BF16);
}

SIMD_CLONES static void row_write_wide(float *out, const struct layernorm *l, size_t i)
{
    l->dt == DT_F32 ? apply_as(out, DT_F32, l, i, DT_F32) : apply_as(out, DT_F32, l, i, DT_BF16);
}

static void row_apply(void *out, const struct layernorm *l, size_t i)
{
    float *wide = l->wide ? l->wide + i * l->C : NULL;

    if (!wide) {
        row_write(out, l, i);
        return;
    }
    row_write_wide(wide, l, i);
    if (out)
        convert(dtype_at(out, l->dt, i * l->C), l->dt, wide, DT_F32, l->C);
}

void layernorm_residual(void *out, const float *x, const float *y, const struct layernorm *l)
{
    size_t C = l->C;

#pragma omp parallel for schedule(dynamic, 8)
    for (size_t i = 0; i < l->n; i++) {
        float *row = l->x + i * C;

        if (y)
            row_add(row, x + i * C, y + i * C, C);
        l->mean[i] = row_mean(row, C);
        l->rstd[i] = 1.0f / sqrtf(row_variance(row, l->mean[i], C) + l->eps);
        row_apply(out, l, i);
    }
}

void layernorm_forward(void *out, const struct layernorm *l)
{
    layernorm_residual(out, NULL, NULL, l);
}

void layernorm_apply(void *out, const struct layernorm *l)
{
#pragma omp parallel for schedule(dynamic, 8)
    for (size_t i = 0; i < l->n; i++)
        row_apply(out, l, i);
}

/* The two sums over a row that its dx needs: sums[0] of w dout, sums[1] of w dout h, h the
 * normalised x. */
SIMD_INLINE void sums_as(float sums[2], const float *dout, const float *x, const void *w,
                         enum dtype dt, float mean, float rstd, size_t C)
{
    float  d[SIMD_LANES] = {0}, dh[SIMD_LANES] = {0};
    size_t j = 0;

    for (; j + SIMD_LANES <= C; j += SIMD_LANES)
        for (size_t l = 0; l < SIMD_LANES; l++) {
            float t = dout[j + l] * dtype_get(w, dt, j + l);

            d[l] += t;
            dh[l] = __builtin_fmaf(t, (x[j + l] - mean) * rstd, dh[l]);
        }
    for (size_t l = 0; j + l < C; l++) {
        float t = dout[j + l] * dtype_get(w, dt, j + l);

        d[l] += t;
        dh[l] = __builtin_fmaf(t, (x[j + l] - mean) * rstd, dh[l]);
    }
    sums[0] = simd_sum(d);
    sums[1] = simd_sum(dh);
}

/* dx += rstd (w dout - mean(w dout) - h mean(w dout h)); dw += dout h; db += dout. */
SIMD_INLINE void backward_as(float *restrict dx, float *restrict dw, float *restrict db,
                             const float *dout, const struct layernorm *l, size_t i, enum dtype dt)
{
    const float *x = l->x + i * l->C, mean = l->mean[i], rstd = l->rstd[i];
    const void  *w = l->w;
    size_t       C = l->C;
    float        sums[2];

    sums_as(sums, dout, x, w, dt, mean, rstd, C);
    float m0 = sums[0] / (float)C;
    float m1 = sums[1] / (float)C;
#pragma omp simd
    for (size_t j = 0; j < C; j++) {
        float h = (x[j] - mean) * rstd;
        float t = dout[j] * dtype_get(w, dt, j) - m0;

        dx[j] = __builtin_fmaf(rstd, __builtin_fmaf(-h, m1, t), dx[j]);
        dw[j] = __builtin_fmaf(dout[j], h, dw[j]);
        db[j] += dout[j];
    }
}

SIMD_CLONES static void row_backward(float *dx, float *dw, float *db, const float *dout,
                                     const struct layernorm *l, size_t i)
{
    l->dt == DT_F32 ? backward_as(dx + i * l->C, dw, db, dout + i * l->C, l, i, DT_F32)
                    : backward_as(dx + i * l->C, dw, db, dout + i * l->C, l, i, DT_BF16);
}

void layernorm_backward(const struct layernorm_backward *b)
{
    const struct layernorm *l = b->l;
    size_t n = l->n, C = l->C, sums = div_up(n, COLSUM_ROWS) * C;
    float *dw_part = b->scratch, *db_part = dw_part + sums, // (groups, C)
          *dx_part = db_part + sums;

#pragma omp parallel
    {
#pragma omp for schedule(dynamic)
        for (size_t first = 0; first < n; first += COLSUM_ROWS) {
            size_t at = first / COLSUM_ROWS * C, end = size_min(first + COLSUM_ROWS, n);

            memset(dw_part + at, 0, C * sizeof *dw_part);
            memset(db_part + at, 0, C * sizeof *db_part);
            if (b->fresh)
                memset(b->dx + first * C, 0, (end - first) * C * sizeof *b->dx);
            for (size_t i = first; i < end; i++) {
                if (b->out)
                    row_apply(b->out, l, i);
                row_backward(b->dx, dw_part + at, db_part + at, b->dout, l, i);
            }
            if (b->dx_sums)
                colsum_group(dx_part + at, b->narrowed ? b->narrowed + first * C : NULL,
                             b->dx + first * C, DT_F32, end - first, C);
        }
        colsum_finish(b->dw, dw_part, n, C);
        colsum_finish(b->db, db_part, n, C);
        if (b->dx_sums)
            colsum_finish(b->dx_sums, dx_part, n, C);
    }
}
