/* attention_amx.c: multiplies attention's tiles in bf16 with AMX. A tile register holds 16 rows of
 * 16 words. Its product adds 16 x 32 bf16 times 32 x 16 bf16 to 16 x 16 fp32 sums.
 *
 * Panels of scores are small for two reasons: they stay in L1, and the unit's first products after
 * a pause of some 300 ns take longer, so softmax between them should be shorter than that. */
#include "kernels/attention/attention_form.h"

#include <assert.h>

enum { SIDE = 16, BLOCK = 2 * SIDE }; // SIDE: rows, and words of a row, of a tile register

/* Tile registers 0-3: sums; 4-6: operands. Their numbers must be literals. */
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

/* Multiplies two neighbouring tiles of sums of p over all of k, in the registers x and y: beside
 * each other if WIDE, else one above the other. They share the left or the right operand. */
#define MULTIPLY(WIDE, x, y)                                                                       \
    do {                                                                                           \
        const word *a = left, *b = right;                                                          \
                                                                                                   \
        if (p->fresh) {                                                                            \
            _tile_zero(x);                                                                         \
            _tile_zero(y);                                                                         \
        } else {                                                                                   \
            _tile_loadd(x, c, c_row);                                                              \
            _tile_loadd(y, c + next, c_row);                                                       \
        }                                                                                          \
        for (size_t k = p->k; k > 0; k -= SIDE, a += SIDE, b += SIDE * p->ldb) {                   \
            _tile_loadd(4, b, b_row);                                                              \
            _tile_loadd(5, a, a_row);                                                              \
            _tile_dpbf16ps(x, 5, 4);                                                               \
            if (WIDE) {                                                                            \
                _tile_loadd(6, b + SIDE, b_row);                                                   \
                _tile_dpbf16ps(y, 5, 6);                                                           \
            } else {                                                                               \
                _tile_loadd(6, a + SIDE * p->a.row, a_row);                                        \
                _tile_dpbf16ps(y, 6, 4);                                                           \
            }                                                                                      \
        }                                                                                          \
        _tile_stored(x, c, c_row);                                                                 \
        _tile_stored(y, c + next, c_row);                                                          \
    } while (0)

/* Two pairs of registers take turns, so that one is stored while the other is summed. gcc does not
 * know that the loads read memory: no ordinary store may be in here. */
AMX __attribute__((always_inline)) static inline void multiply_as(const struct tile_product *p,
                                                                  const int wide)
{
    const size_t c_row = p->ldc * sizeof(float), a_row = p->a.row * sizeof(word),
                 b_row = p->ldb * sizeof(word), next = wide ? SIDE : SIDE * p->ldc;
    int          odd = 0;

    for (size_t i = 0; i < p->m; i += wide ? SIDE : 2 * SIDE)
        for (size_t j = 0; j < p->n; j += wide ? 2 * SIDE : SIDE, odd = !odd) {
            float      *c = p->c + i * p->ldc + j;
            const word *left = p->a.p + i * p->a.row, *right = p->b + j;

            if (odd)
                MULTIPLY(wide, 2, 3);
            else
                MULTIPLY(wide, 0, 1);
        }
}

AMX static void multiply(const struct tile_product *p)
{
    assert(p->m % SIDE == 0 && p->n % SIDE == 0 && p->k % SIDE == 0);
    assert(p->m % (2 * SIDE) == 0 || p->n % (2 * SIDE) == 0);
    if (p->n % (2 * SIDE) == 0)
        multiply_as(p, 1);
    else
        multiply_as(p, 0);
}

static int runs(enum dtype dt) { return dt == DT_BF16 && simd_amx_bf16(); }

const struct attention_form attention_amx = {
    .name = "amx", .depth = 2, .strip = BLOCK, .runs = runs, .load = attention_bf16_load,
    .forward = { .queries = SIDE, .keys = TILE, .ld = SIDE },
    .backward = { .queries = BLOCK, .keys = SIDE, .ld = BLOCK },
    .fold = attention_bf16_fold, .contiguous = 1,
    .begin = begin, .end = end, .multiply = multiply,
    .softmax = attention_bf16_softmax, .unit = LN_2,
    .softmax_backward = attention_bf16_softmax_backward,
};
