/* layernorm.h: layer normalisation over the last dimension, y = (x - mean) * rstd * w + b
 * (Ba, Kiros, Hinton 2016; variance over C, not C - 1, as PyTorch). Rows run in parallel;
 * sums over rows are taken in fixed groups of LAYERNORM_ROWS rows, so that the result does
 * not depend on the number of threads. */
#ifndef KERNELS_LAYERNORM_H
#define KERNELS_LAYERNORM_H

#include "data/base/dtype.h"

enum { LAYERNORM_ROWS = 32 };

/* out (n, C) of `out_dt`; mean, rstd (n); x (n, C); w, b (C) of `w_dt`. */
void layernorm_forward(void *out, enum dtype out_dt, float *mean, float *rstd, const float *x,
                       const void *w, const void *b, enum dtype w_dt, size_t n, size_t C,
                       float eps);

/* The same of x + y, which goes into sum (n, C): a residual added and normalised while its row is
 * in cache. sum overlaps neither. */
void layernorm_residual(void *out, enum dtype out_dt, float *mean, float *rstd, float *sum,
                        const float *x, const float *y, const void *w, const void *b,
                        enum dtype w_dt, size_t n, size_t C, float eps);

/* The normalised rows once more, from the saved mean and rstd: the same bits as forward gave. */
void layernorm_apply(void *out, enum dtype out_dt, const float *mean, const float *rstd,
                     const float *x, const void *w, const void *b, enum dtype w_dt, size_t n,
                     size_t C);

/* dx (n, C) += ; dw, db (C) += ; dout (n, C). scratch: layernorm_scratch(n, C) bytes. */
void layernorm_backward(float *dx, float *dw, float *db, const float *dout, const float *x,
                        const void *w, enum dtype w_dt, const float *mean, const float *rstd,
                        size_t n, size_t C, void *scratch);
size_t layernorm_scratch(size_t n, size_t C);

#endif
