/* embedding.c: forward looks rows up; backward adds rows where tokens repeat, so there the threads
 * share out the columns, and every element sees its sums in the order of (b, t). */
#include "kernels/embedding.h"

#include "data/base/round.h"
#include "kernels/simd.h"

#include <omp.h>

SIMD_INLINE void row_as(float *out, const void *te, const void *pe, enum dtype dt, size_t C)
{
#pragma omp simd
    for (size_t j = 0; j < C; j++)
        out[j] = dtype_get(te, dt, j) + dtype_get(pe, dt, j);
}

SIMD_CLONES
static void row_forward(float *out, const void *te, const void *pe, enum dtype dt, size_t C)
{
    dt == DT_F32 ? row_as(out, te, pe, DT_F32, C) : row_as(out, te, pe, DT_BF16, C);
}

void embedding_forward(float *out, const void *wte, const void *wpe, enum dtype dt,
                       const int32_t *tokens, size_t B, size_t T, size_t C)
{
    size_t row = C * dtype_bytes(dt);

#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < B * T; i++)
        row_forward(out + i * C, (const char *)wte + (size_t)tokens[i] * row,
                    (const char *)wpe + i % T * row, dt, C);
}

SIMD_CLONES
static void row_backward(float *restrict te, float *restrict pe, const float *restrict dout,
                         size_t n)
{
    for (size_t j = 0; j < n; j++) {
        te[j] += dout[j];
        pe[j] += dout[j];
    }
}

void embedding_backward(float *dwte, float *dwpe, const float *dout, const int32_t *tokens,
                        size_t B, size_t T, size_t C)
{
    enum { LINE = 16 }; // floats of a cache line: no two threads write one

#pragma omp parallel
    {
        size_t lines = div_up(C, LINE);
        size_t threads = (size_t)omp_get_num_threads(), me = (size_t)omp_get_thread_num();
        size_t from = lines * me / threads * LINE, to = lines * (me + 1) / threads * LINE;

        to = size_min(to, C);
        for (size_t i = 0; i < B * T && from < to; i++)
            row_backward(dwte + (size_t)tokens[i] * C + from, dwpe + i % T * C + from,
                         dout + i * C + from, to - from);
    }
}
