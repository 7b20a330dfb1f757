/* int8.c: packs and unpacks matrices in 8 bits, with a scale for each row. */
#include "kernels/quant/int8.h"

#include "kernels/simd.h"

#include <math.h>

/* A row whose largest magnitude is 0, or so small that its scale is 0, becomes zeros. */
static void row_pack(float *scale, int8_t *restrict out, const float *restrict w, size_t n)
{
    float most = 0;

    for (size_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(w[i]));
    *scale = most / 127.0f;
    for (size_t i = 0; i < n && *scale > 0; i++) {
        // a subnormal scale may be off by so much that a quotient exceeds 127
        float q = fmaxf(-127.0f, fminf(127.0f, rintf(w[i] / *scale)));

        out[i] = (int8_t)q;
    }
}

void int8_pack(void *out, const float *w, size_t rows, size_t cols)
{
    float  *scales = out;
    int8_t *values = (int8_t *)(scales + rows);

#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < rows; r++)
        row_pack(&scales[r], values + r * cols, w + r * cols, cols);
}

SIMD_CLONES static void row_f32(float *restrict out, const int8_t *restrict q, float scale,
                                size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (float)q[i] * scale;
}

SIMD_CLONES static void row_bf16(bf16 *restrict out, const int8_t *restrict q, float scale,
                                 size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = bf16_from_f32((float)q[i] * scale);
}

void int8_unpack(void *out, enum dtype dt, const void *packed, size_t rows, size_t cols)
{
    const float  *scales = packed;
    const int8_t *values = (const int8_t *)(scales + rows);

#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < rows; r++)
        if (dt == DT_F32)
            row_f32((float *)out + r * cols, values + r * cols, scales[r], cols);
        else
            row_bf16((bf16 *)out + r * cols, values + r * cols, scales[r], cols);
}
