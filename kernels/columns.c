/* columns.c: copies columns, and adds to them. Threads share the rows. */
#include "kernels/columns.h"

#include "kernels/elementwise.h"
#include "kernels/simd.h"

void columns_take(void *out, const struct columns *of)
{
    size_t bytes = of->width * dtype_bytes(of->dt);

#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < of->n; i++)
        memcpy((char *)out + i * bytes, dtype_at(of->x, of->dt, i * of->stride), bytes);
}

SIMD_CLONES static void bf16_add(bf16 *restrict x, const float *restrict y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = bf16_from_f32(bf16_to_f32(x[i]) + y[i]);
}

void columns_add(const struct columns *of, const float *y)
{
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < of->n; i++) {
        void *x = dtype_at(of->x, of->dt, i * of->stride);

        if (of->dt == DT_F32)
            row_add(x, x, y + i * of->width, of->width);
        else
            bf16_add(x, y + i * of->width, of->width);
    }
}
