/* quant.c: says how many bytes each kind of packed matrix has, and calls the kind. */
#include "kernels/quant/quant.h"

#include "data/base/round.h"
#include "kernels/elementwise.h"
#include "kernels/quant/int8.h"
#include "kernels/quant/nf4.h"

#include <assert.h>

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
