/* quant.c: says how many bytes each kind of packed matrix has, and packs and unpacks them. */
#include "kernels/quant/quant.h"

#include "data/base/round.h"
#include "kernels/elementwise.h"
#include "kernels/quant/nf4.h"
#include "kernels/simd.h"

#include <assert.h>
#include <math.h>

/* ---- int8: a scale for each row, then the values ---- */

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

static void int8_pack(void *out, const float *w, size_t rows, size_t cols)
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

static void int8_unpack(void *out, enum dtype dt, const void *packed, size_t rows, size_t cols)
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

/* ---- all kinds ---- */

size_t quant_bytes(enum quant kind, size_t rows, size_t cols)
{
    size_t n = rows * cols;

    assert(kind != QUANT_NONE);
    if (kind == QUANT_BF16)
        return round_up(n * sizeof(bf16), 4);
    return kind == QUANT_INT8 ? rows * sizeof(float) + round_up(n, 4) : nf4_bytes(n);
}

void quant_pack(enum quant kind, void *out, const float *w, size_t rows, size_t cols,
                float *scratch)
{
    memset(out, 0, quant_bytes(kind, rows, cols));
    if (kind == QUANT_BF16)
        convert(out, DT_BF16, w, DT_F32, rows * cols);
    else if (kind == QUANT_INT8)
        int8_pack(out, w, rows, cols);
    else
        nf4_pack(out, w, rows * cols, scratch);
}

void quant_unpack(enum quant kind, void *out, enum dtype dt, const void *packed, size_t rows,
                  size_t cols)
{
    if (kind == QUANT_BF16)
        convert(out, dt, packed, DT_BF16, rows * cols);
    else if (kind == QUANT_INT8)
        int8_unpack(out, dt, packed, rows, cols);
    else
        nf4_unpack(out, dt, packed, rows * cols);
}
