/* attention_amx.c: multiplies attention's tiles in bf16 with AMX. A tile register holds 16 rows of
 * 16 words. Its product adds 16 x 32 bf16 times 32 x 16 bf16 to 16 x 16 fp32 sums. The block of
 * sums is 2 x 2 registers. */
#include "kernels/attention/attention_form.h"

#include <assert.h>

enum { SIDE = 16, BLOCK = 2 * SIDE }; // SIDE: rows, and words of a row, of a tile register

/* Tile registers 0-3: sums; 4, 5: upper and lower half of the left operand; 6, 7: left and right
 * half of the right one. Their numbers must be literals. */
struct tile_config { // the format of LDTILECFG
    uint8_t  palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t  rows[16];
};

static_assert((int)BLOCK == (int)WIDE_STRIP, "scratch has room for any form's padding");

enum { ROW = SIDE * sizeof(word) };

static const struct tile_config config = {
    .palette = 1, .row_bytes = { ROW, ROW, ROW, ROW, ROW, ROW, ROW, ROW },
    .rows = { SIDE, SIDE, SIDE, SIDE, SIDE, SIDE, SIDE, SIDE },
};

#define AMX __attribute__((target("amx-tile,amx-bf16")))

AMX static void begin(void) { _tile_loadconfig(&config); }

AMX static void end(void) { _tile_release(); }

/* Multiplies the part of p at c, a, b: BLOCK rows and columns. gcc does not know that the loads
 * read memory: no ordinary store may be in here or in multiply. */
AMX __attribute__((always_inline)) static inline void
block(const struct tile_product *p, float *c, const word *a, const word *b)
{
    const size_t c_row = p->ldc * sizeof *c, a_row = p->a.row * sizeof *a,
                 b_row = p->ldb * sizeof *b;
    float       *low = c + SIDE * p->ldc;

    if (p->fresh) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    } else {
        _tile_loadd(0, c, c_row);
        _tile_loadd(1, c + SIDE, c_row);
        _tile_loadd(2, low, c_row);
        _tile_loadd(3, low + SIDE, c_row);
    }
    for (size_t k = 0; k < p->k; k += SIDE, a += SIDE, b += SIDE * p->ldb) {
        _tile_loadd(4, a, a_row);
        _tile_loadd(6, b, b_row);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b + SIDE, b_row);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a + SIDE * p->a.row, a_row);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, c_row);
    _tile_stored(1, c + SIDE, c_row);
    _tile_stored(2, low, c_row);
    _tile_stored(3, low + SIDE, c_row);
}

AMX static void multiply(const struct tile_product *p)
{
    assert(p->m % BLOCK == 0 && p->n % BLOCK == 0 && p->k % SIDE == 0);
    for (size_t i = 0; i < p->m; i += BLOCK)
        for (size_t j = 0; j < p->n; j += BLOCK)
            block(p, p->c + i * p->ldc + j, p->a.p + i * p->a.row, p->b + j);
}

static int runs(enum dtype dt) { return dt == DT_BF16 && simd_amx_bf16(); }

const struct attention_form attention_amx = {
    .name = "amx", .depth = 2, .strip = BLOCK, .runs = runs, .load = attention_bf16_load,
    .fold = attention_bf16_fold, .contiguous = 1,
    .begin = begin, .end = end, .multiply = multiply,
    .softmax = attention_bf16_softmax, .unit = LN_2,
    .softmax_backward = attention_bf16_softmax_backward,
};
